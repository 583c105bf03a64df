/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One receive takes many packets, one send answers them all in order, and each verdict is judged alone. */
#include "kernel.h"

enum { COUNT = 100 };

int main(void)
{
	struct nq_packet packets[COUNT + 1];
	struct nq_config config;
	bool in_order;

	kernel_start();
	nq_config_init(&config, 0);
	config.burst = COUNT + 1;
	struct nq_queue *queue = kernel_open_queue(&config);
	int receiver = kernel_open_receiver();

	kernel_send(0, COUNT, 200);
	is(kernel_drain(receiver, NULL), 0, "queued packets wait");
	is(nq_receive(queue, packets, COUNT + 1), COUNT, "one receive takes all that wait");
	ok(packets[0].id == 1 && packets[COUNT - 1].id == COUNT, "ids are consecutive from 1 on");
	is(packets[0].length_bytes, 228, "the length begins at the network header");
	is(packets[0].hook, NF_INET_LOCAL_OUT, "the hook is told");
	is(packets[0].in_ifindex, 0, "a packet of our own comes from no interface");

	/* One verdict too many, in the middle: for an id that does not exist. */
	memmove(&packets[51], &packets[50], (COUNT - 50) * sizeof(packets[0]));
	packets[50].id = 123456;
	is(nq_reply(queue, packets, COUNT + 1), 0, "one send carries all verdicts");
	is(kernel_drain(receiver, &in_order), COUNT, "every packet with a verdict goes on");
	ok(in_order, "in the order of the verdicts");
	is(nq_receive(queue, packets, COUNT), 0, "the refused verdict is answered");
	is(kernel_counters(queue).flushed, 1, "once");
	is(kernel_counters(queue).send_calls, 1, "by one system call in all");
	nq_close(queue);
	return done_testing();
}
