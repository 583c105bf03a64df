/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Why bind and configuration are one message: a bind on its own drops every packet, also with bypass, and no counter
 * says so; and a copy mode that the kernel does not know is acknowledged and does the same. */
#include <libmnl/libmnl.h>
#include <libnetfilter_queue/libnetfilter_queue.h>

#include "kernel.h"

static int configure(struct mnl_socket *socket, uint8_t command, int mode)
{
	char buffer[256];
	struct nlmsghdr *nlh = nfq_nlmsg_put(buffer, NFQNL_MSG_CONFIG, 0);

	nlh->nlmsg_flags |= NLM_F_ACK;
	nfq_nlmsg_cfg_put_cmd(nlh, AF_UNSPEC, command);
	if (mode >= 0)
		nfq_nlmsg_cfg_put_params(nlh, (uint8_t)mode, 0xffff);
	if (mnl_socket_sendto(socket, nlh, nlh->nlmsg_len) < 0)
		bail_out("send");
	ssize_t bytes = mnl_socket_recvfrom(socket, buffer, sizeof(buffer));
	if (bytes < 0)
		bail_out("receive");
	return mnl_cb_run(buffer, (size_t)bytes, 0, 0, NULL, NULL) < 0 ? -errno : 0;
}

static void expect_black_hole(const char *what, int mode)
{
	struct mnl_socket *socket = mnl_socket_open2(NETLINK_NETFILTER, SOCK_CLOEXEC);
	int receiver = kernel_open_receiver();
	char line[128] = "";

	if (!socket || mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) < 0)
		bail_out("socket");
	is(configure(socket, NFQNL_CFG_CMD_BIND, mode), 0, what);
	kernel_send(0, 10, 100);
	is(kernel_drain(receiver, NULL), 0, "  every packet is lost");
	FILE *file = fopen("/proc/thread-self/net/netfilter/nfnetlink_queue", "re");
	if (!file || !fgets(line, sizeof(line), file))
		bail_out("nfnetlink_queue");
	fclose(file);
	unsigned int waiting;
	unsigned int copy_mode;
	unsigned int dropped;
	unsigned int user_dropped;
	unsigned int sequence;
	int fields =
		sscanf(line, "%*u %*u %u %u %*u %u %u %u", &waiting, &copy_mode, &dropped, &user_dropped, &sequence);
	is(fields, 5, "  the queue is listed");
	is(copy_mode, NFQNL_COPY_NONE, "  in a mode that copies nothing");
	is(waiting + dropped + user_dropped + sequence, 0, "  and no counter has moved");
	mnl_socket_close(socket);
	kernel_send(0, 10, 100);
	is(kernel_drain(receiver, NULL), 10, "  without owner, bypass lets packets pass");
	close(receiver);
}

int main(void)
{
	kernel_start();
	expect_black_hole("a lone bind is acknowledged", -1);
	expect_black_hole("so is a bind with a copy mode that does not exist", 9);
	return done_testing();
}
