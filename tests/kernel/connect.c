/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A netlink socket that is connected to the kernel still gets the kernel's packets, and nobody else can send to it. */
#include "kernel.h"

#include <errno.h>
#include <linux/netlink.h>

/* Sends what looks like a packet to the port, as root could. */
static int send_forged(uint32_t portid)
{
	struct sockaddr_nl to = { .nl_family = AF_NETLINK, .nl_pid = portid };
	struct nlmsghdr forged = { .nlmsg_len = sizeof(forged), .nlmsg_type = NLMSG_DONE };
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);

	if (fd < 0)
		bail_out("socket");
	ssize_t sent = sendto(fd, &forged, sizeof(forged), 0, (const struct sockaddr *)&to, sizeof(to));
	int error = sent < 0 ? errno : 0;
	close(fd);
	return error;
}

static uint32_t portid_of(int fd)
{
	struct sockaddr_nl own = { 0 };
	socklen_t length = sizeof(own);

	if (getsockname(fd, (struct sockaddr *)&own, &length) < 0)
		bail_out("getsockname");
	return own.nl_pid;
}

int main(void)
{
	struct nq_packet packets[4];
	struct nq_config config;

	kernel_start();
	int plain = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	struct sockaddr_nl any = { .nl_family = AF_NETLINK };
	if (plain < 0 || bind(plain, (const struct sockaddr *)&any, sizeof(any)) < 0)
		bail_out("bind");
	is(send_forged(portid_of(plain)), 0, "to a socket that is not connected others can send");
	close(plain);

	nq_config_init(&config, 0);
	struct nq_queue *queue = kernel_open_queue(&config);
	int receiver = kernel_open_receiver();
	is(send_forged(portid_of(nq_socket(queue))), ECONNREFUSED, "to that of a queue they cannot");

	kernel_send(0, 3, 100);
	is(nq_receive(queue, packets, 4), 3, "packets of the kernel arrive");
	is(nq_reply(queue, packets, 3), 0, "verdicts are sent");
	is(kernel_drain(receiver, NULL), 3, "and applied");
	is(kernel_counters(queue).malformed, 0, "nothing else has come");
	close(receiver);
	nq_close(queue);
	return done_testing();
}
