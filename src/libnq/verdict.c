/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Verdict messages.
 *
 * A verdict carries the packet's id and what becomes of it, never a payload: the kernel then goes on with its own copy,
 * which is what "unchanged" means, and which also holds for a packet of which we saw only a part.
 */
#include <libmnl/libmnl.h>
#include <libnetfilter_queue/libnetfilter_queue.h>

#include "internal.h"

size_t nq_verdict_put(char buffer[NQ_VERDICT_BYTES_MAX], uint16_t queue, const struct nq_packet *packet)
{
	struct nlmsghdr *nlh = nfq_nlmsg_put(buffer, NFQNL_MSG_VERDICT, queue);
	nlh->nlmsg_seq = NQ_SEQUENCE_VERDICT;

	nfq_nlmsg_verdict_put(nlh, (int)packet->id, (int)packet->verdict);
	if (packet->set_mark)
		nfq_nlmsg_verdict_put_mark(nlh, packet->mark);
	return nlh->nlmsg_len;
}
