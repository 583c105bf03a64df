/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One acknowledged message binds and configures a queue, or changes nothing; a queue has one owner. */
#include "kernel.h"

int main(void)
{
	struct nq_config config;
	struct nq_queue *queue;
	struct nq_queue *second;
	struct nq_owner owner;

	kernel_start();
	nq_config_init(&config, 7);
	queue = kernel_open_queue(&config);
	struct nq_status status = kernel_status(queue);
	is(status.copy_mode, NFQNL_COPY_PACKET, "copy mode is in force when the bind is acknowledged");
	is(status.copy_bytes, 65531, "so is the copy range");

	is(nq_open(&second, &config), -EBUSY, "a second bind is told that the queue is owned");
	is(nq_owner_find(7, &owner), 0, "the owner is found");
	is(owner.pid, getpid(), "by its process id");
	ok(strcmp(owner.command, "bind") == 0, "and its command");
	nq_close(queue);
	is(nq_owner_find(7, &owner), -ENOENT, "closing the socket unbinds");

	config.flags |= 0x40;
	is(nq_open(&second, &config), -EOPNOTSUPP, "a flag that the kernel does not know is refused");
	is(nq_owner_find(7, &owner), -ENOENT, "and nothing was bound");

	nq_config_init(&config, 7);
	config.copy_bytes = NQ_COPY_META;
	queue = kernel_open_queue(&config);
	is(kernel_status(queue).copy_mode, NFQNL_COPY_META, "the queue can be bound again, with other options");
	nq_close(queue);

	config.queue = 65535;
	queue = kernel_open_queue(&config);
	is(nq_owner_find(65535, &owner), 0, "the highest queue number can be bound");
	nq_close(queue);
	return done_testing();
}
