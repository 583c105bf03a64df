/* SPDX-License-Identifier: GPL-2.0-or-later */
/* When the socket buffer overruns, the gaps in the ids are exactly the packets that user space never saw; and the
 * buffer that nq_rcvbuf_bytes() asks for does not overrun. */
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
	return done_testing();
}
