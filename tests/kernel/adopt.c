/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A queue changes hands: a socket keeps its queue whoever holds it. What the last owner had read and not answered is
 * released by one verdict, the rest is handed out, and nothing is lost on the way; both accounts balance.
 */
#include "kernel.h"

enum { COUNT = 50, READ = 20 };

static unsigned int answer_what_is_there(struct nq_queue *queue)
{
	struct nq_packet packets[8];
	unsigned int answered = 0;

	while (kernel_pending(queue)) {
		int count = nq_receive(queue, packets, 8);
		if (count < 0 || nq_reply(queue, packets, (unsigned int)count) < 0)
			bail_out("serving");
		answered += (unsigned int)count;
	}
	return answered;
}

static struct nq_ledger ledger_of(const struct nq_queue *queue)
{
	struct nq_ledger ledger = { 0 };
	int error = nq_ledger_read(queue, &ledger);

	if (error) {
		errno = -error;
		bail_out("nq_ledger_read");
	}
	return ledger;
}

static int duplicate(int fd)
{
	return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

/* As after a crash: a descriptor of the socket is left, and nothing is known. */
static struct nq_queue *crash_and_adopt(struct nq_queue *queue, const struct nq_config *config)
{
	struct nq_handover handover = { .socket = duplicate(nq_socket(queue)), .status = -1, .queue = config->queue };
	struct nq_queue *adopted;

	nq_close(queue);
	int error = nq_adopt(&adopted, config, &handover);
	if (error) {
		errno = -error;
		bail_out("nq_adopt");
	}
	return adopted;
}

/* Reads some and answers none, as somebody does who is killed at the wrong moment. */
static void read_without_answer(struct nq_queue *queue)
{
	struct nq_packet packets[READ];

	is(nq_receive(queue, packets, READ), READ, "an owner has read some packets");
}

static struct nq_queue *test_crash(struct nq_config *config, int receiver)
{
	struct nq_queue *queue = kernel_open_queue(config);

	kernel_send(0, COUNT, 100);
	read_without_answer(queue);
	config->copy_bytes = 60;
	config->maxlen = 300;
	config->flags = NQ_F_GSO | NQ_F_FAIL_OPEN;
	queue = crash_and_adopt(queue, config);
	struct nq_ledger ledger;
	is(nq_ledger_read(queue, &ledger), -EAGAIN, "before the first packet there is no account");
	is(kernel_drain(receiver, NULL), 0, "with the socket kept all packets wait");
	is(kernel_status(queue).waiting, COUNT, "each of them");
	is(kernel_status(queue).copy_bytes, 60, "the new options are in force");
	is(answer_what_is_there(queue), COUNT - READ, "those that nobody has read are handed out");
	bool in_order;
	is(kernel_drain(receiver, &in_order), COUNT, "and no packet is lost");
	ok(in_order, "nor overtaken");
	ledger = ledger_of(queue);
	is(ledger.queued, COUNT - READ, "the account begins with what was left to read");
	is(ledger.answered, COUNT - READ, "all of which was answered");
	is(ledger.residue, 0, "without residue");
	return queue;
}

static struct nq_queue *test_crash_without_packets_behind(struct nq_queue *queue, const struct nq_config *config,
							  int receiver)
{
	kernel_send(0, READ, 100);
	read_without_answer(queue);
	queue = crash_and_adopt(queue, config);
	is(answer_what_is_there(queue), 0, "nothing is left to read");
	is(kernel_drain(receiver, NULL), READ, "what nobody will see again is released all the same");
	kernel_send(0, COUNT, 100);
	is(answer_what_is_there(queue), COUNT, "later packets are handed out");
	is(kernel_drain(receiver, NULL), COUNT, "and arrive");
	is(kernel_counters(queue).lost_ids, 0, "no packet is missing");
	is(ledger_of(queue).queued, COUNT, "the account begins with them");
	is(ledger_of(queue).residue, 0, "without residue");
	return queue;
}

/* Without a crash the account goes on. */
static struct nq_queue *test_handover(struct nq_queue *queue, const struct nq_config *config, int receiver)
{
	struct nq_handover handover;
	struct nq_packet packets[8];
	struct nq_queue *adopted;
	unsigned int answered = 0;
	int count;

	kernel_send(0, COUNT, 100);
	is(nq_pause(queue), 0, "a pause is asked for while packets wait");
	kernel_send(COUNT, COUNT, 100);
	while ((count = nq_receive(queue, packets, 8)) >= 0) {
		nq_reply(queue, packets, (unsigned int)count);
		answered += (unsigned int)count;
	}
	is(count, -ECANCELED, "it comes");
	ok(answered >= COUNT && answered < COUNT + 8, "behind the packets that waited");
	nq_handover_read(queue, &handover);
	ok(handover.is_known, "the account is known");
	handover.socket = duplicate(handover.socket);
	handover.status = duplicate(handover.status);
	nq_close(queue);
	is(nq_adopt(&adopted, config, &handover), 0, "the queue is adopted");
	is(answer_what_is_there(adopted), 2 * COUNT - answered, "the others are handed out");
	is(kernel_drain(receiver, NULL), 2 * COUNT, "no packet is lost");
	is(kernel_counters(adopted).packets, 3 * COUNT, "counters go on");
	is(ledger_of(adopted).queued, 3 * COUNT, "and the account");
	is(ledger_of(adopted).residue, 0, "without residue");
	return adopted;
}

/* What finds no room in the socket buffer is dropped, or passes; either is counted by the kernel's socket. */
static void test_overrun(uint32_t flags, const char *name)
{
	struct nq_config config;

	nq_config_init(&config, 0);
	config.flags |= flags;
	config.rcvbuf_bytes = 10000;
	config.maxlen = 1000;
	struct nq_queue *queue = kernel_open_queue(&config);
	kernel_send(0, 200, 100);
	answer_what_is_there(queue);
	struct nq_ledger ledger = ledger_of(queue);
	ok((flags ? ledger.passed : ledger.dropped) > 100, "%s: packets that found no room are in the account", name);
	is(flags ? ledger.dropped : ledger.passed, 0, name);
	is(ledger.queued, 200, name);
	is(ledger.residue, 0, name);
	nq_close(queue);
}

static void test_strangers(const struct nq_config *config)
{
	struct nq_queue *queue = kernel_open_queue(config);
	struct nq_config other = *config;
	struct nq_queue *adopted;
	struct nq_handover handover = { .socket = nq_socket(queue), .status = -1 };

	other.queue = 1;
	is(nq_adopt(&adopted, &other, &handover), -ENODEV, "a socket that has not bound the queue is refused");
	ok(fcntl(nq_socket(queue), F_GETFD) >= 0, "and stays the caller's");
	nq_close(queue);
}

int main(void)
{
	struct nq_config config;

	kernel_start();
	nq_config_init(&config, 0);
	int receiver = kernel_open_receiver();
	struct nq_queue *queue = test_crash(&config, receiver);
	queue = test_crash_without_packets_behind(queue, &config, receiver);
	queue = test_handover(queue, &config, receiver);
	nq_close(queue);
	test_overrun(0, "overrun");
	test_overrun(NQ_F_FAIL_OPEN, "overrun, fail-open");
	nq_config_init(&config, 0);
	test_strangers(&config);
	return done_testing();
}
