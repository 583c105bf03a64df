/* SPDX-License-Identifier: GPL-2.0-or-later */
/* CAP_NET_ADMIN is needed to bind, and for every verdict after it. */
#include <sys/capability.h>

#include "kernel.h"

static void drop_capabilities(void)
{
	cap_t none = cap_init();

	if (!none || cap_set_proc(none) < 0)
		bail_out("cap_set_proc");
	cap_free(none);
}

int main(void)
{
	struct nq_packet packets[4];
	struct nq_queue *second;
	struct nq_config config;

	kernel_start();
	nq_config_init(&config, 0);
	struct nq_queue *queue = kernel_open_queue(&config);
	int receiver = kernel_open_receiver();
	kernel_send(0, 4, 100);
	is(nq_receive(queue, packets, 4), 4, "packets wait for a verdict");

	drop_capabilities();
	is(nq_reply(queue, packets, 4), 0, "verdicts without the capability can be sent");
	is(kernel_drain(receiver, NULL), 0, "but have no effect");
	is(nq_receive(queue, packets, 4), 0, "they are refused");
	is(kernel_counters(queue).verdict_errors, 1, "with one answer for all that were sent together");
	is(kernel_status(queue).waiting, 4, "and the packets still wait");
	config.queue = 1;
	is(nq_open(&second, &config), -EPERM, "a free queue needs the capability");
	config.queue = 0;
	is(nq_open(&second, &config), -EPERM, "so does an owned one: that is what is missing first");
	nq_close(queue);
	return done_testing();
}
