/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A queue's receive and reply without a kernel behind them.
 *
 * Datagrams come through a socket pair, so that the real recvmmsg() is at work; the wrapper only raises errors and keeps
 * it from waiting. What would be sent is kept.
 */
/* wrap: recvmmsg sendto */
#include "unit.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

/* The files themselves: what they do inside is nobody else's business. */
#include "../../src/libnq/open.c"
#include "../../src/libnq/queue.c"
#include "message.h"

int __real_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout);
int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout);
ssize_t __wrap_sendto(int fd, const void *data, size_t bytes, int flags, const struct sockaddr *to, socklen_t length);

static struct {
	int receive_error;
	unsigned int empty_receives; /* so many find nothing before the others */
	unsigned int waits;	     /* receives that may sleep */
	int send_error;
	unsigned int sends;
	size_t sent_bytes;
	char sent[NQ_BURST_MAX * NQ_VERDICT_BYTES_MAX];
} fake;

int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout)
{
	if (fake.receive_error) {
		errno = fake.receive_error;
		fake.receive_error = 0;
		return -1;
	}
	if (!(flags & MSG_DONTWAIT))
		fake.waits++;
	if (fake.empty_receives) {
		fake.empty_receives--;
		errno = EAGAIN;
		return -1;
	}
	return __real_recvmmsg(fd, messages, count, flags | MSG_DONTWAIT, timeout);
}

ssize_t __wrap_sendto(int fd, const void *data, size_t bytes, int flags, const struct sockaddr *to, socklen_t length)
{
	(void)fd;
	(void)flags;
	assert_int_equal(length, sizeof(struct sockaddr_nl));
	assert_int_equal(((const struct sockaddr_nl *)(const void *)to)->nl_pid, 0); /* addressed to the kernel */
	if (fake.send_error) {
		errno = fake.send_error;
		return -1;
	}
	assert_true(bytes <= sizeof(fake.sent));
	memcpy(fake.sent, data, bytes);
	fake.sent_bytes = bytes;
	fake.sends++;
	return (ssize_t)bytes;
}

struct fixture {
	struct nq_queue queue;
	int kernel; /* the other end of the socket */
	struct message message;
	struct nq_packet packets[NQ_BURST_MAX];
	struct nq_counters counters;
};

static struct fixture fixture;

static int setup(void **state)
{
	int pair[2];
	memset(&fixture, 0, sizeof(fixture));
	memset(&fake, 0, sizeof(fake));
	fixture.queue.burst = 8;
	fixture.queue.copy_bytes = 1024;
	fixture.queue.status_fd = -EACCES;
	fixture.queue.number = 3;
	assert_int_equal(open_allocate(&fixture.queue), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
	fixture.queue.fd = pair[0];
	fixture.kernel = pair[1];
	return 0;
}

static int teardown(void **state)
{
	close(fixture.kernel);
	close(fixture.queue.fd);
	free(fixture.queue.marked_verdicts);
	free(fixture.queue.verdicts);
	free(fixture.queue.buffers);
	free(fixture.queue.iovecs);
	free(fixture.queue.messages);
	return 0;
}

static void put(const struct nlmsghdr *nlh)
{
	assert_int_equal(write(fixture.kernel, nlh, nlh->nlmsg_len), nlh->nlmsg_len);
}

static void put_packet(uint32_t id)
{
	put(message_put_packet(&fixture.message, id, 100));
}

static int receive(void)
{
	int count = nq_receive(&fixture.queue, fixture.packets, NQ_BURST_MAX);

	nq_counters_read(&fixture.queue, &fixture.counters);
	return count;
}

static uint32_t sent_id(size_t index)
{
	uint32_t id;

	memcpy(&id, fake.sent + index * 32 + 28, sizeof(id));
	return ntohl(id);
}

static void burst_is_received_and_answered_in_order(void **state)
{
	for (uint32_t id = 1; id <= 5; id++)
		put_packet(id);
	assert_int_equal(receive(), 5);
	assert_int_equal(nq_reply(&fixture.queue, fixture.packets, 5), 0);
	assert_int_equal(fake.sends, 1);
	assert_int_equal(fake.sent_bytes, 5 * 32);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(sent_id(i), i + 1);
	assert_int_equal(fixture.counters.packets, 5);
	assert_int_equal(fixture.counters.bytes, 500);
	assert_int_equal(fixture.counters.gso_packets, 5);
	assert_int_equal(fixture.counters.lost_ids, 0);
	assert_int_equal(fixture.counters.receive_calls, 1);
	nq_counters_read(&fixture.queue, &fixture.counters);
	assert_int_equal(fixture.counters.verdicts, 5);
}

static void burst_and_capacity_both_bound_a_receive(void **state)
{
	for (uint32_t id = 1; id <= 12; id++)
		put_packet(id);
	assert_int_equal(receive(), 8);
	assert_int_equal(nq_receive(&fixture.queue, fixture.packets, 3), 3);
	assert_int_equal(fixture.packets[2].id, 11);
	assert_int_equal(receive(), 1);
}

static void errors_among_packets_are_counted_and_left_out(void **state)
{
	put_packet(1);
	put(message_put_answer(&fixture.message, -ENOENT, NQ_SEQUENCE_VERDICT));
	put_packet(2);
	put(message_put_answer(&fixture.message, -EINVAL, NQ_SEQUENCE_VERDICT));
	put(message_put_answer(&fixture.message, 0, NQ_SEQUENCE_BIND));
	assert_int_equal(write(fixture.kernel, "noise", 5), 5);
	put_packet(3);
	assert_int_equal(receive(), 3);
	assert_int_equal(fixture.packets[0].id, 1);
	assert_int_equal(fixture.packets[1].id, 2);
	assert_int_equal(fixture.packets[2].id, 3);
	assert_int_equal(fixture.counters.flushed, 1);
	assert_int_equal(fixture.counters.verdict_errors, 1);
	assert_int_equal(fixture.counters.malformed, 1);
	assert_int_equal(fixture.counters.packets, 3);
}

static void notices_alone_are_no_packets_and_no_end(void **state)
{
	put(message_put_answer(&fixture.message, -ENOENT, NQ_SEQUENCE_VERDICT));
	assert_int_equal(receive(), 0);
	put_packet(1);
	assert_int_equal(receive(), 1);
}

static void gaps_in_ids_are_lost_packets(void **state)
{
	put_packet(1);
	put_packet(4);
	put_packet(5);
	assert_int_equal(receive(), 3);
	assert_int_equal(fixture.counters.lost_ids, 2);
}

static void packets_before_the_first_seen_are_lost_too(void **state)
{
	put_packet(11);
	assert_int_equal(receive(), 1);
	assert_int_equal(fixture.counters.lost_ids, 10);
}

static void ids_wrap_without_loss(void **state)
{
	static const uint32_t ids[] = { 0x7fffffff, 0x80000000, 0xffffffff, 0, 1 };
	fixture.queue.last_id = 0x7ffffffe;
	put_packet(ids[0]);
	put_packet(ids[1]);
	assert_int_equal(receive(), 2);
	assert_int_equal(fixture.counters.lost_ids, 0);
	fixture.queue.last_id = 0xfffffffe;
	put_packet(ids[2]);
	put_packet(ids[3]);
	put_packet(ids[4]);
	assert_int_equal(receive(), 3);
	assert_int_equal(fixture.counters.lost_ids, 0);
}

static void datagram_longer_than_the_buffer_is_still_answered(void **state)
{
	struct nlmsghdr *nlh = message_put_packet(&fixture.message, 1, 1024);
	fixture.queue.iovecs[0].iov_len = 512;
	put(nlh);
	assert_int_equal(receive(), 1);
	assert_int_equal(fixture.packets[0].id, 1);
	assert_null(fixture.packets[0].payload);
}

static void mark_is_sent_where_it_is_set(void **state)
{
	uint32_t mark;
	for (uint32_t id = 1; id <= 3; id++)
		put_packet(id);
	assert_int_equal(receive(), 3);
	fixture.packets[1].set_mark = true;
	fixture.packets[1].mark = 0xabcd;
	assert_int_equal(nq_reply(&fixture.queue, fixture.packets, 3), 0);
	assert_int_equal(fake.sent_bytes, 32 + 40 + 32);
	assert_int_equal(sent_id(0), 1);
	assert_int_equal(sent_id(1), 2);
	assert_int_equal(fixture.queue.counters.verdicts, 3);
	memcpy(&mark, fake.sent + 32 + 36, sizeof(mark));
	assert_int_equal(ntohl(mark), 0xabcd);

	/* Those without are as they were. */
	assert_int_equal(nq_reply(&fixture.queue, fixture.packets, 1), 0);
	assert_int_equal(fake.sent_bytes, 32);
	assert_int_equal(sent_id(0), 1);
}

static void spinning_thread_does_not_sleep_for_what_comes_in_time(void **state)
{
	fixture.queue.spin_ns = 50000000;
	fake.empty_receives = 3;
	put_packet(1);
	assert_int_equal(receive(), 1);
	assert_int_equal(fake.waits, 0);
	assert_int_equal(fixture.counters.spin_calls, 3);
	assert_int_equal(fixture.counters.spin_receives, 1);
	assert_int_equal(fixture.counters.receive_calls, 1);
}

static void thread_that_spins_in_vain_sleeps_more_and_more_at_once(void **state)
{
	uint64_t spins[16];

	fixture.queue.spin_ns = 1;
	for (unsigned int i = 0; i < 16; i++) {
		assert_int_equal(receive(), 0); /* the wrapper lets nothing wait */
		spins[i] = fixture.counters.spin_calls;
	}
	assert_int_equal(fake.waits, 16);
	assert_true(spins[3] > spins[2]);  /* the fourth in vain */
	assert_true(spins[4] == spins[3]); /* one left out */
	assert_true(spins[5] > spins[4]);
	assert_true(spins[7] == spins[5]); /* two */
	assert_true(spins[8] > spins[7]);
	assert_true(spins[12] == spins[8]); /* four */
	assert_true(spins[13] > spins[12]);
}

static void success_brings_spinning_back(void **state)
{
	fixture.queue.spin_ns = 1;
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(receive(), 0);
	for (uint32_t id = 1; id <= 2; id++) { /* the first receive does not spin, the second does */
		put_packet(id);
		assert_int_equal(receive(), 1);
	}
	assert_int_equal(fixture.counters.spin_receives, 1);
	for (unsigned int i = 0; i < 4; i++) {
		uint64_t spins = fixture.counters.spin_calls;
		assert_int_equal(receive(), 0);
		assert_true(fixture.counters.spin_calls > spins);
	}
}

static void overruns_are_counted_and_survived(void **state)
{
	fake.receive_error = ENOBUFS;
	assert_int_equal(receive(), 0);
	assert_int_equal(fixture.counters.overruns, 1);
	assert_int_equal(fake.sends, 0);
	put_packet(1);
	assert_int_equal(receive(), 1);
}

static void interruption_is_no_error(void **state)
{
	fake.receive_error = EINTR;
	assert_int_equal(receive(), 0);
	fake.receive_error = EBADF;
	assert_int_equal(receive(), -EBADF);
}

static void stop_hands_out_what_waited_and_then_ends(void **state)
{
	assert_int_equal(nq_stop(&fixture.queue), 0);
	assert_int_equal(fake.sends, 1);
	put_packet(1);
	put_packet(2);
	put(message_put_answer(&fixture.message, 0, NQ_SEQUENCE_STOP));
	assert_int_equal(receive(), 2);
	assert_int_equal(receive(), -ESHUTDOWN);
	assert_int_equal(receive(), -ESHUTDOWN);
}

/* As when the socket buffer was full: the kernel answers within the call, or not at all. */
static void stop_is_asked_for_again_when_its_answer_is_lost(void **state)
{
	put_packet(1);
	assert_int_equal(nq_stop(&fixture.queue), 0);
	fake.receive_error = ENOBUFS;
	assert_int_equal(receive(), 0);
	assert_int_equal(fixture.counters.overruns, 1);
	assert_int_equal(receive(), 1);
	assert_int_equal(fake.sends, 1);
	assert_int_equal(receive(), 0);
	assert_int_equal(fake.sends, 2);
	assert_int_equal(fixture.queue.answers_lost, 1);
	assert_int_equal(fake.waits, 0); /* for an answer that cannot come */
	put(message_put_answer(&fixture.message, 0, NQ_SEQUENCE_STOP));
	assert_int_equal(receive(), -ESHUTDOWN);
	assert_int_equal(fixture.queue.answers_lost, 1);
}

static void answers_that_nobody_asked_for_are_ignored(void **state)
{
	put(message_put_answer(&fixture.message, 0, NQ_SEQUENCE_STOP));
	put(message_put_answer(&fixture.message, 0, NQ_SEQUENCE_PAUSE));
	put(message_put_answer(&fixture.message, -ENOENT, NQ_SEQUENCE_RELEASE));
	assert_int_equal(receive(), 0);
	assert_int_equal(fixture.queue.end, 0);
	assert_int_equal(fixture.counters.flushed + fixture.counters.verdict_errors, 0);
}

static void pause_ends_behind_what_was_there_and_can_be_taken_back(void **state)
{
	assert_int_equal(nq_pause(&fixture.queue), 0);
	put_packet(1);
	put(message_put_answer(&fixture.message, 0, NQ_SEQUENCE_PAUSE));
	put_packet(2);
	assert_int_equal(receive(), 2); /* what was received with it too */
	assert_int_equal(receive(), -ECANCELED);
	put_packet(3);
	assert_int_equal(receive(), -ECANCELED);
	nq_resume(&fixture.queue);
	assert_int_equal(receive(), 1);
	assert_int_equal(fixture.counters.packets, 3);
	assert_int_equal(receive(), 0);
	assert_int_equal(fake.waits, 2); /* it sleeps again */
	nq_resume(&fixture.queue);	 /* to no effect */
	assert_int_equal(nq_stop(&fixture.queue), 0);
	put(message_put_answer(&fixture.message, 0, NQ_SEQUENCE_STOP));
	assert_int_equal(receive(), -ESHUTDOWN);
	nq_resume(&fixture.queue);
	assert_int_equal(receive(), -ESHUTDOWN);
}

static void adopted_queue_releases_what_lies_before_its_first_packet(void **state)
{
	uint32_t id;
	fixture.queue.orphans = true;
	put_packet(1000);
	put_packet(1001);
	assert_int_equal(receive(), 2);
	assert_int_equal(fake.sends, 1);
	assert_int_equal(((struct nlmsghdr *)fake.sent)->nlmsg_type, NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_VERDICT_BATCH);
	memcpy(&id, fake.sent + 28, sizeof(id));
	assert_int_equal(ntohl(id), 999);
	assert_int_equal(fixture.counters.lost_ids, 0);
	put_packet(1003);
	assert_int_equal(receive(), 1);
	assert_int_equal(fake.sends, 1);
	assert_int_equal(fixture.counters.lost_ids, 1);
}

static void adopted_queue_without_packets_releases_what_was_there_before(void **state)
{
	uint32_t id;
	fixture.queue.orphans = true;
	fixture.queue.adopt_id = 77;
	fixture.queue.adopt_sequence = NQ_SEQUENCE_ADOPT + 5;
	put(message_put_answer(&fixture.message, 0, NQ_SEQUENCE_ADOPT + 4)); /* somebody else's */
	assert_int_equal(receive(), 0);
	assert_int_equal(fake.sends, 0);
	put(message_put_answer(&fixture.message, 0, NQ_SEQUENCE_ADOPT + 5));
	assert_int_equal(receive(), 0);
	memcpy(&id, fake.sent + 28, sizeof(id));
	assert_int_equal(ntohl(id), 77);
}

static void refused_adoption_is_final(void **state)
{
	fixture.queue.adopt_sequence = NQ_SEQUENCE_ADOPT;
	put(message_put_answer(&fixture.message, -EPERM, NQ_SEQUENCE_ADOPT));
	assert_int_equal(receive(), -EPERM);
}

static void handover_carries_the_account(void **state)
{
	struct nq_handover handover;
	struct nq_queue *other = &(struct nq_queue){ 0 };
	put_packet(1);
	put_packet(3);
	assert_int_equal(receive(), 2);
	fixture.queue.origin_is_known = true;
	fixture.queue.origin = (struct nq_origin){ .ids_skipped = 5, .socket_drops = 6, .user_dropped = 7 };
	nq_handover_read(&fixture.queue, &handover);
	assert_int_equal(handover.socket, fixture.queue.fd);
	assert_int_equal(handover.queue, 3);
	open_go_on(other, &handover);
	assert_false(other->orphans);
	assert_int_equal(other->last_id, 3);
	assert_int_equal(other->counters.packets, 2);
	assert_int_equal(other->counters.lost_ids, 1);
	assert_memory_equal(&other->origin, &fixture.queue.origin, sizeof(other->origin));
	open_go_on(other, &(struct nq_handover){ 0 });
	assert_true(other->orphans);
}

static void only_a_netfilter_socket_can_be_adopted(void **state)
{
	struct nq_config config;
	struct nq_queue *queue = &fixture.queue;
	nq_config_init(&config, 0);
	assert_int_equal(nq_adopt(&queue, &config, &(struct nq_handover){ .socket = fixture.kernel }), -ENOTSOCK);
	assert_null(queue);
	assert_int_equal(nq_adopt(&queue, &config, &(struct nq_handover){ .socket = -1 }), -ENOTSOCK);
}

static void queue_that_was_unbound_ends(void **state)
{
	put(message_put_answer(&fixture.message, -ENODEV, NQ_SEQUENCE_VERDICT));
	assert_int_equal(receive(), -ENODEV);
	assert_int_equal(fixture.counters.verdict_errors, 1);
}

static void refused_stop_ends_with_its_error(void **state)
{
	assert_int_equal(nq_stop(&fixture.queue), 0);
	put(message_put_answer(&fixture.message, -ENODEV, NQ_SEQUENCE_STOP));
	assert_int_equal(receive(), -ENODEV);
}

static void held_packets_are_left_out(void **state)
{
	for (uint32_t id = 1; id <= 3; id++)
		put_packet(id);
	assert_int_equal(receive(), 3);
	fixture.packets[1].verdict = NQ_HOLD;
	assert_int_equal(nq_reply(&fixture.queue, fixture.packets, 3), 0);
	assert_int_equal(fake.sent_bytes, 2 * 32);
	assert_int_equal(sent_id(1), 3);
	assert_int_equal(fixture.queue.counters.verdicts, 2);

	fake.sends = 0;
	assert_int_equal(nq_reply(&fixture.queue, &fixture.packets[1], 1), 0);
	assert_int_equal(fake.sends, 0);
	assert_int_equal(nq_reply(&fixture.queue, NULL, 0), 0);
	assert_int_equal(fake.sends, 0);
}

static void more_verdicts_than_a_message_holds_take_several(void **state)
{
	static struct nq_packet many[NQ_BURST_MAX + 1];
	for (uint32_t i = 0; i <= NQ_BURST_MAX; i++)
		many[i] = (struct nq_packet){ .id = i + 1, .verdict = NF_ACCEPT };
	assert_int_equal(nq_reply(&fixture.queue, many, NQ_BURST_MAX + 1), 0);
	assert_int_equal(fake.sends, 2);
	assert_int_equal(sent_id(0), NQ_BURST_MAX + 1);
	nq_counters_read(&fixture.queue, &fixture.counters);
	assert_int_equal(fixture.counters.send_calls, 2);
}

static void failing_send_is_returned(void **state)
{
	put_packet(1);
	assert_int_equal(receive(), 1);
	fake.send_error = ENOBUFS;
	assert_int_equal(nq_reply(&fixture.queue, fixture.packets, 1), -ENOBUFS);
	assert_int_equal(fixture.queue.counters.verdicts, 0);
}

static void run_drop_all(void *context, struct nq_packet packets[], unsigned int count)
{
	*(unsigned int *)context += count;
	for (unsigned int i = 0; i < count; i++)
		packets[i].verdict = NF_DROP;
}

static void run_serves_until_the_stop(void **state)
{
	unsigned int seen = 0;
	uint32_t verdict;
	assert_int_equal(nq_stop(&fixture.queue), 0);
	put_packet(1);
	put_packet(2);
	put(message_put_answer(&fixture.message, 0, NQ_SEQUENCE_STOP));
	assert_int_equal(nq_run(&fixture.queue, run_drop_all, &seen), 0);
	assert_int_equal(seen, 2);
	memcpy(&verdict, fake.sent + 24, sizeof(verdict));
	assert_int_equal(ntohl(verdict), NF_DROP);
}

static void missing_module_is_told_from_a_bad_request(void **state)
{
	fixture.queue.status_fd = -EPROTONOSUPPORT;
	assert_int_equal(open_explain_refusal(&fixture.queue, -EINVAL), -EPROTONOSUPPORT);
	fixture.queue.status_fd = -EACCES;
	assert_int_equal(open_explain_refusal(&fixture.queue, -EINVAL), -EINVAL);
	assert_int_equal(open_explain_refusal(&fixture.queue, -EPERM), -EPERM);
	assert_int_equal(open_explain_refusal(&fixture.queue, -EOPNOTSUPP), -EOPNOTSUPP);
	fixture.queue.status_fd = -1;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(burst_is_received_and_answered_in_order),
		TEST(burst_and_capacity_both_bound_a_receive),
		TEST(errors_among_packets_are_counted_and_left_out),
		TEST(notices_alone_are_no_packets_and_no_end),
		TEST(gaps_in_ids_are_lost_packets),
		TEST(packets_before_the_first_seen_are_lost_too),
		TEST(ids_wrap_without_loss),
		TEST(datagram_longer_than_the_buffer_is_still_answered),
		TEST(mark_is_sent_where_it_is_set),
		TEST(spinning_thread_does_not_sleep_for_what_comes_in_time),
		TEST(thread_that_spins_in_vain_sleeps_more_and_more_at_once),
		TEST(success_brings_spinning_back),
		TEST(overruns_are_counted_and_survived),
		TEST(interruption_is_no_error),
		TEST(stop_hands_out_what_waited_and_then_ends),
		TEST(stop_is_asked_for_again_when_its_answer_is_lost),
		TEST(answers_that_nobody_asked_for_are_ignored),
		TEST(pause_ends_behind_what_was_there_and_can_be_taken_back),
		TEST(adopted_queue_releases_what_lies_before_its_first_packet),
		TEST(adopted_queue_without_packets_releases_what_was_there_before),
		TEST(refused_adoption_is_final),
		TEST(handover_carries_the_account),
		TEST(only_a_netfilter_socket_can_be_adopted),
		TEST(queue_that_was_unbound_ends),
		TEST(refused_stop_ends_with_its_error),
		TEST(held_packets_are_left_out),
		TEST(more_verdicts_than_a_message_holds_take_several),
		TEST(failing_send_is_returned),
		TEST(run_serves_until_the_stop),
		TEST(missing_module_is_told_from_a_bad_request),
	};
	return cmocka_run_group_tests_name("queue", tests, NULL, NULL);
}
