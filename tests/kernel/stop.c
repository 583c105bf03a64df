/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A stop in order: packets that wait are handed out before its acknowledgement, later ones pass by, none is lost. */
#include "kernel.h"

enum { COUNT = 50 };

static unsigned int answer_until_the_end(struct nq_queue *queue)
{
	struct nq_packet packets[8];
	unsigned int answered = 0;
	int count;

	while ((count = nq_receive(queue, packets, 8)) >= 0) {
		if (nq_reply(queue, packets, (unsigned int)count) < 0)
			bail_out("nq_reply");
		answered += (unsigned int)count;
	}
	is(count, -ESHUTDOWN, "the queue ends by the stop");
	return answered;
}

int main(void)
{
	struct nq_config config;

	kernel_start();
	nq_config_init(&config, 0);
	struct nq_queue *queue = kernel_open_queue(&config);
	int receiver = kernel_open_receiver();

	kernel_send(0, COUNT, 100);
	is(nq_stop(queue), 0, "a stop is sent while packets wait");
	kernel_send(COUNT, COUNT, 100);
	is(kernel_drain(receiver, NULL), COUNT, "packets after the stop pass by the queue");
	is(answer_until_the_end(queue), COUNT, "those that waited are handed out first");
	is(kernel_drain(receiver, NULL), COUNT, "and go on when answered");
	struct nq_status status = kernel_status(queue);
	is(status.waiting, 0, "nothing waits any more");
	is(status.dropped + status.user_dropped, 0, "nothing was dropped");
	nq_close(queue);
	kernel_send(0, COUNT, 100);
	is(kernel_drain(receiver, NULL), COUNT, "unbound, the rule's bypass lets packets pass");
	return done_testing();
}
