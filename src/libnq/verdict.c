/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Verdict messages.
 *
 * A verdict carries the packet's id and what becomes of it, never a payload: the kernel then goes on with its own copy,
 * which is what "unchanged" means, and which also holds for a packet of which we saw only a part.
 *
 * All verdicts of a queue look alike but for these two numbers, so that they lie ready but for them.
 */
#include <string.h>

#include "internal.h"

struct verdict_mark {
	struct nlattr attr;
	uint32_t mark;
};

_Static_assert(sizeof(struct nq_verdict) + sizeof(struct verdict_mark) == NQ_VERDICT_BYTES_MAX, "no padding");

void nq_verdict_init(struct nq_verdict *verdict, uint16_t queue)
{
	*verdict = (struct nq_verdict){
		.nlh.nlmsg_len = sizeof(*verdict),
		.nlh.nlmsg_type = (NFNL_SUBSYS_QUEUE << 8) | NFQNL_MSG_VERDICT,
		.nlh.nlmsg_flags = NLM_F_REQUEST,
		.nlh.nlmsg_seq = NQ_SEQUENCE_VERDICT,
		.nfg = { .nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = htons(queue) },
		.attr = { .nla_len = sizeof(verdict->attr) + sizeof(verdict->verdict), .nla_type = NFQA_VERDICT_HDR },
	};
}

size_t nq_verdict_put(char buffer[NQ_VERDICT_BYTES_MAX], uint16_t queue, const struct nq_packet *packet)
{
	const struct verdict_mark mark = {
		.attr = { .nla_len = sizeof(mark), .nla_type = NFQA_MARK },
		.mark = htonl(packet->mark),
	};
	struct nq_verdict verdict;

	nq_verdict_init(&verdict, queue);
	nq_verdict_set(&verdict, packet);
	if (packet->set_mark) {
		verdict.nlh.nlmsg_len += sizeof(mark);
		memcpy(buffer + sizeof(verdict), &mark, sizeof(mark));
	}
	memcpy(buffer, &verdict, sizeof(verdict));
	return verdict.nlh.nlmsg_len;
}

void nq_verdict_release(struct nq_verdict *verdict, uint16_t queue, uint32_t id)
{
	nq_verdict_init(verdict, queue);
	verdict->nlh.nlmsg_type = (NFNL_SUBSYS_QUEUE << 8) | NFQNL_MSG_VERDICT_BATCH;
	verdict->nlh.nlmsg_seq = NQ_SEQUENCE_RELEASE;
	verdict->verdict.verdict = htonl(NF_ACCEPT);
	verdict->verdict.id = htonl(id);
}
