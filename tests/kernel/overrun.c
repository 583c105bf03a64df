/* SPDX-License-Identifier: GPL-2.0-or-later */
/* When the socket buffer overruns, the gaps in the ids are exactly the packets that user space never saw; and the
 * buffer that nq_rcvbuf_bytes() asks for does not overrun. */
#include <linux/netlink.h>

#include "kernel.h"

enum { COUNT = 400 };

struct outcome {
	unsigned int delivered;
	struct nq_counters counters;
	struct nq_status status;
};

static struct outcome overload(uint32_t rcvbuf_bytes, uint32_t maxlen, uint32_t flags, size_t bytes)
{
	struct outcome outcome = { 0 };
	struct nq_packet packets[16];
	struct nq_config config;

	nq_config_init(&config, 0);
	config.flags |= flags;
	config.rcvbuf_bytes = rcvbuf_bytes;
	config.maxlen = maxlen;
	struct nq_queue *queue = kernel_open_queue(&config);
	int receiver = kernel_open_receiver();

	/* Send more than fits, take it, and let one more packet follow, whose id tells of all before it. */
	kernel_send(0, COUNT - 1, bytes);
	for (int last = 0; last < 2; last++) {
		while (kernel_pending(queue)) {
			int count = nq_receive(queue, packets, 16);
			if (count < 0 || nq_reply(queue, packets, (unsigned int)count) < 0)
				bail_out("receive or reply");
			outcome.delivered += kernel_drain(receiver, NULL);
		}
		if (!last)
			kernel_send(COUNT - 1, 1, bytes);
	}
	outcome.delivered += kernel_drain(receiver, NULL);
	outcome.counters = kernel_counters(queue);
	outcome.status = kernel_status(queue);
	close(receiver);
	nq_close(queue);
	return outcome;
}

/* Somebody who wants no ENOBUFS hears of no overrun: ids and account tell it all the same. */
static void test_silence(void)
{
	struct nq_packet packets[16];
	struct nq_config config;
	struct nq_ledger ledger = { 0 };
	int one = 1;

	nq_config_init(&config, 0);
	config.rcvbuf_bytes = 4096;
	config.maxlen = 1024;
	struct nq_queue *queue = kernel_open_queue(&config);
	if (setsockopt(nq_socket(queue), SOL_NETLINK, NETLINK_NO_ENOBUFS, &one, sizeof(one)) < 0)
		bail_out("NETLINK_NO_ENOBUFS");
	kernel_send(0, COUNT, 100);
	while (kernel_pending(queue)) {
		int count = nq_receive(queue, packets, 16);
		if (count < 0 || nq_reply(queue, packets, (unsigned int)count) < 0)
			bail_out("receive or reply");
	}
	is(kernel_counters(queue).overruns, 0, "without ENOBUFS an overrun is silent");
	is(nq_ledger_read(queue, &ledger), 0, "the account can be drawn up");
	ok(ledger.dropped > 0, "and has what was dropped");
	is(ledger.answered + ledger.dropped, COUNT, "seen and dropped make up all that was sent");
	is(ledger.residue, 0, "without residue");
	nq_close(queue);
}

/* A packet can be answered once. */
static void test_second_verdict(void)
{
	struct nq_packet packets[16];
	struct nq_config config;

	nq_config_init(&config, 0);
	struct nq_queue *queue = kernel_open_queue(&config);
	kernel_send(0, 1, 100);
	if (nq_receive(queue, packets, 16) != 1 || nq_reply(queue, packets, 1) < 0 || nq_reply(queue, packets, 1) < 0)
		bail_out("receive or reply");
	is(nq_receive(queue, packets, 16), 0, "a second verdict for a packet brings a notice");
	is(kernel_counters(queue).flushed, 1, "which says that no such packet waits");
	nq_close(queue);
}

int main(void)
{
	struct outcome outcome;

	kernel_start();
	outcome = overload(4096, 1024, 0, 100);
	ok(outcome.status.user_dropped > 0, "a tiny socket buffer overruns");
	ok(outcome.counters.overruns > 0, "which the receiver is told");
	is(outcome.counters.lost_ids, outcome.status.user_dropped, "gaps in the ids are the kernel's drops");
	is(outcome.counters.packets + outcome.counters.lost_ids, COUNT, "seen and lost make up all that was sent");
	is(outcome.delivered, outcome.counters.packets, "what was seen is delivered");

	outcome = overload(4096, 1024, NQ_F_FAIL_OPEN, 100);
	ok(outcome.counters.lost_ids > 0, "with fail-open, ids are missing as well");
	is(outcome.status.user_dropped, 0, "but no packet was dropped");
	is(outcome.delivered, COUNT, "and all are delivered");

	outcome = overload(NQ_RCVBUF_BY_SIZE, NQ_MAXLEN_BY_SIZE, 0, 100);
	is(outcome.counters.packets, COUNT, "a buffer sized for the queue holds small packets");
	is(outcome.status.user_dropped + outcome.status.dropped, 0, "without a drop");
	is(outcome.counters.overruns, 0, "and without an overrun");

	outcome = overload(100000, NQ_MAXLEN_BY_SIZE, 0, 60000);
	ok(outcome.status.dropped > 0, "a queue sized for a small buffer is full first");
	is(outcome.status.user_dropped, 0, "so that the buffer does not overrun");
	is(outcome.counters.lost_ids, 0, "and no id is missing");
	test_silence();
	test_second_verdict();
	return done_testing();
}
