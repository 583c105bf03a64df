/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The worker's loop without a kernel behind it: recorded datagrams come in, verdicts go out.
 *
 * Theory of operation
 *
 *   The system calls that carry messages are replaced when this is linked. A bind is acknowledged; each receive brings
 *   a burst of the recorded datagrams, over and over, with ids that go up from 1; each verdict that comes back must be
 *   an acceptance of the next id. So it is the library and the no-op that run, and a loop that did not work cannot
 *   pass for a fast one.
 *
 *   The socket is a real one, which needs no privilege, but nothing is sent to it.
 *
 *   What is to be counted is loop_serve(), without the replaced calls: all of them are called __wrap_*, by which a
 *   profiler can tell.
 */
/* wrap: sendto sendmsg recvmmsg recv poll open */
#include "recording.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "nq.h"
#include "processor.h"

#define LOOP_FILE_BYTES_MAX (1u << 20)
#define LOOP_DATAGRAMS_MAX  1024u

int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout);
ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags);
ssize_t __wrap_sendto(int fd, const void *data, size_t bytes, int flags, const struct sockaddr *to, socklen_t length);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *header, int flags);
int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms);
int __wrap_open(const char *path, int flags, ...);

__attribute__((noreturn)) static void loop_die(const char *what)
{
	fprintf(stderr, "loop: %s\n", what);
	exit(1);
}

/* ---- the recording ---- */

/* How each datagram begins: the kernel puts the packet's header, and so its id, first. */
struct recording_start {
	struct nlmsghdr nlh;
	struct nfgenmsg nfg;
	struct nlattr attr;
	uint32_t id; /* big-endian */
};

static struct {
	struct recording_head head;
	char bytes[LOOP_FILE_BYTES_MAX];
	struct iovec datagrams[LOOP_DATAGRAMS_MAX];
	unsigned int count;
} recording;

static void recording_add(char *datagram, uint32_t bytes)
{
	struct recording_start start;

	if (recording.count == LOOP_DATAGRAMS_MAX || bytes < sizeof(start))
		loop_die("too many datagrams, or one that is too short");
	memcpy(&start, datagram, sizeof(start));
	if (start.nlh.nlmsg_type != RECORDING_PACKET || start.attr.nla_type != NFQA_PACKET_HDR)
		loop_die("not a packet, or recorded on a machine of another byte order");
	recording.datagrams[recording.count++] = (struct iovec){ datagram, bytes };
}

static void recording_read(const char *path)
{
	FILE *file = fopen(path, "re");
	uint32_t length;

	if (!file || fread(&recording.head, sizeof(recording.head), 1, file) != 1)
		loop_die("the recording cannot be read");
	size_t bytes = fread(recording.bytes, 1, sizeof(recording.bytes), file);
	fclose(file);
	for (size_t at = 0; at < bytes; at += length) {
		if (bytes - at < sizeof(length))
			loop_die("the recording ends within a length");
		memcpy(&length, recording.bytes + at, sizeof(length));
		at += sizeof(length);
		if (bytes - at < length)
			loop_die("the recording ends within a datagram");
		recording_add(recording.bytes + at, length);
	}
	if (recording.count == 0)
		loop_die("the recording is empty");
}

/* ---- the kernel ---- */

static struct {
	unsigned int burst;   /* packets that wait whenever somebody looks */
	uint32_t packets;     /* to hand out in all */
	uint32_t last_id;     /* handed out */
	uint32_t answered_id; /* the last that was accepted */
	uint32_t refused;     /* verdicts that are not what the no-op says */
	bool answer_waits;
	struct {
		struct nlmsghdr nlh;
		struct nlmsgerr body;
	} answer;
} kernel;

static void kernel_acknowledge(const struct nlmsghdr *request)
{
	kernel.answer.nlh = (struct nlmsghdr){ .nlmsg_len = sizeof(kernel.answer),
					       .nlmsg_type = NLMSG_ERROR,
					       .nlmsg_seq = request->nlmsg_seq };
	kernel.answer.body = (struct nlmsgerr){ .msg = *request };
	kernel.answer_waits = true;
}

/* How long a verdict is that has neither a payload nor a mark. */
#define KERNEL_VERDICT_BYTES (sizeof(struct recording_start) - sizeof(uint32_t) + sizeof(struct nfqnl_msg_verdict_hdr))

/* Accepts the next packet, and leaves it as it is? */
static void kernel_judge(const struct nlmsghdr *nlh)
{
	const struct nlattr *attr = mnl_nlmsg_get_payload_offset(nlh, sizeof(struct nfgenmsg));
	struct nfqnl_msg_verdict_hdr verdict;

	if (nlh->nlmsg_len != KERNEL_VERDICT_BYTES || mnl_attr_get_type(attr) != NFQA_VERDICT_HDR ||
	    mnl_attr_get_payload_len(attr) != sizeof(verdict)) {
		kernel.refused++;
		return;
	}
	memcpy(&verdict, mnl_attr_get_payload(attr), sizeof(verdict));
	if (ntohl(verdict.verdict) != NF_ACCEPT || ntohl(verdict.id) != kernel.answered_id + 1)
		kernel.refused++;
	kernel.answered_id = ntohl(verdict.id);
}

static void kernel_take(const void *data, size_t bytes)
{
	const struct nlmsghdr *nlh = data;

	for (int left = (int)bytes; left > 0; nlh = mnl_nlmsg_next(nlh, &left)) {
		if (!mnl_nlmsg_ok(nlh, left))
			loop_die("what was sent is no netlink message");
		if (nlh->nlmsg_type == ((NFNL_SUBSYS_QUEUE << 8) | NFQNL_MSG_VERDICT))
			kernel_judge(nlh);
		else
			kernel_acknowledge(nlh);
	}
}

/* Lays bytes into the parts of a message, as many as there is room for, and returns their number. */
static size_t kernel_scatter(const struct msghdr *header, const char *data, size_t bytes)
{
	size_t done = 0;

	for (size_t i = 0; i < header->msg_iovlen && done < bytes; i++) {
		const struct iovec *part = &header->msg_iov[i];
		size_t here = part->iov_len < bytes - done ? part->iov_len : bytes - done;
		memcpy(part->iov_base, data + done, here);
		done += here;
	}
	return done;
}

/* Gives the next packet. */
static void kernel_give(struct mmsghdr *message)
{
	const struct iovec *datagram = &recording.datagrams[kernel.last_id % recording.count];
	struct sockaddr_nl sender = { .nl_family = AF_NETLINK };
	struct msghdr *header = &message->msg_hdr;
	uint32_t id = htonl(++kernel.last_id);

	memcpy((char *)datagram->iov_base + offsetof(struct recording_start, id), &id, sizeof(id));
	message->msg_len = (unsigned int)kernel_scatter(header, datagram->iov_base, datagram->iov_len);
	header->msg_flags = message->msg_len < datagram->iov_len ? MSG_TRUNC : 0;
	if (header->msg_name) {
		memcpy(header->msg_name, &sender, sizeof(sender));
		header->msg_namelen = sizeof(sender);
	}
}

/* ---- the system calls ---- */

int __wrap_recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags, struct timespec *timeout)
{
	unsigned int most = count < kernel.burst ? count : kernel.burst;
	unsigned int given = 0;

	(void)fd;
	(void)flags;
	(void)timeout;
	while (given < most && kernel.last_id < kernel.packets)
		kernel_give(&messages[given++]);
	if (given > 0)
		return (int)given;
	errno = ENODATA; /* final for the queue */
	return -1;
}

ssize_t __wrap_recv(int fd, void *data, size_t bytes, int flags)
{
	size_t length = bytes < sizeof(kernel.answer) ? bytes : sizeof(kernel.answer);

	(void)fd;
	if (!kernel.answer_waits) {
		errno = EAGAIN;
		return -1;
	}
	kernel.answer_waits = flags & MSG_PEEK;
	memcpy(data, &kernel.answer, length);
	return (ssize_t)length;
}

ssize_t __wrap_sendto(int fd, const void *data, size_t bytes, int flags, const struct sockaddr *to, socklen_t length)
{
	(void)fd;
	(void)flags;
	(void)to;
	(void)length;
	kernel_take(data, bytes);
	return (ssize_t)bytes;
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *header, int flags)
{
	static _Alignas(struct nlmsghdr) char whole[1u << 16];
	size_t bytes = 0;

	(void)fd;
	(void)flags;
	for (size_t i = 0; i < header->msg_iovlen; i++) {
		const struct iovec *part = &header->msg_iov[i];
		if (part->iov_len > sizeof(whole) - bytes)
			loop_die("more is sent than was thought of");
		memcpy(whole + bytes, part->iov_base, part->iov_len);
		bytes += part->iov_len;
	}
	kernel_take(whole, bytes);
	return (ssize_t)bytes;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	(void)timeout_ms;
	for (nfds_t i = 0; i < count; i++)
		fds[i].revents = fds[i].events;
	return (int)count;
}

/* What /proc says of the queue, which it does not know of. */
int __wrap_open(const char *path, int flags, ...)
{
	(void)path;
	(void)flags;
	errno = EACCES;
	return -1;
}

/* ---- the loop ---- */

/* As in the worker. A function of its own, so that it can be told by its name. */
__attribute__((noinline)) static int loop_serve(struct nq_queue *queue, uint32_t total)
{
	struct nq_packet packets[NQ_BURST_DEFAULT];

	for (uint32_t served = 0; served < total;) {
		int count = nq_receive(queue, packets, NQ_BURST_DEFAULT);
		if (count < 0)
			return count;
		if (count == 0)
			continue;
		processor_noop.process(NULL, packets, (unsigned int)count);
		int error = nq_reply(queue, packets, (unsigned int)count);
		if (error)
			return error;
		served += (uint32_t)count;
	}
	return 0;
}

static struct nq_queue *loop_open_queue(void)
{
	struct nq_config config;
	struct nq_queue *queue;

	nq_config_init(&config, 0);
	config.flags = recording.head.flags;
	config.copy_bytes = recording.head.copy_bytes;
	int error = nq_open(&queue, &config);
	if (error)
		loop_die(strerror(-error));
	return queue;
}

static void loop_judge(const struct nq_queue *queue)
{
	struct nq_counters counters;

	nq_counters_read(queue, &counters);
	if (counters.packets != kernel.packets || counters.lost_ids || counters.malformed)
		loop_die("not every packet was received");
	if (kernel.answered_id != kernel.packets || kernel.refused)
		loop_die("not every packet was accepted, in order and unchanged");
	if (counters.receive_calls != (kernel.packets + kernel.burst - 1) / kernel.burst)
		loop_die("packets did not come in bursts");
}

int main(int argc, char *argv[])
{
	if (argc == 2 && strcmp(argv[1], "--compiler") == 0) {
		puts(__VERSION__);
		return 0;
	}
	if (argc != 4) {
		fprintf(stderr, "usage: loop RECORDING BURST PACKETS\n");
		return 2;
	}
	recording_read(argv[1]);
	kernel.burst = (unsigned int)strtoul(argv[2], NULL, 10);
	kernel.packets = (uint32_t)strtoul(argv[3], NULL, 10);
	if (kernel.burst < 1 || kernel.burst > NQ_BURST_DEFAULT)
		loop_die("the burst must be from 1 to what a queue takes at once");
	struct nq_queue *queue = loop_open_queue();
	int error = loop_serve(queue, kernel.packets);
	if (error)
		loop_die(strerror(-error));
	loop_judge(queue);
	nq_close(queue);
	return 0;
}
