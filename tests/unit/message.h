/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Builds the datagrams that a kernel sends, and those that it never would. */
#ifndef MESSAGE_H
#define MESSAGE_H

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <string.h>

struct message {
	_Alignas(struct nlmsghdr) char bytes[4096];
};

static inline struct nlmsghdr *message_begin(struct message *message, uint16_t type)
{
	memset(message->bytes, 0, sizeof(message->bytes));
	struct nlmsghdr *nlh = mnl_nlmsg_put_header(message->bytes);
	nlh->nlmsg_type = type;
	return nlh;
}

static inline struct nlmsghdr *message_begin_packet(struct message *message)
{
	struct nlmsghdr *nlh = message_begin(message, (NFNL_SUBSYS_QUEUE << 8) | NFQNL_MSG_PACKET);
	struct nfgenmsg *nfg = mnl_nlmsg_put_extra_header(nlh, sizeof(*nfg));
	nfg->nfgen_family = AF_INET;
	return nlh;
}

static inline void message_put_header(struct nlmsghdr *nlh, uint32_t id)
{
	struct nfqnl_msg_packet_hdr header = { .packet_id = htonl(id), .hw_protocol = htons(0x86dd), .hook = 2 };
	mnl_attr_put(nlh, NFQA_PACKET_HDR, sizeof(header), &header);
}

/* As the kernel puts them: header first, payload last. */
static inline struct nlmsghdr *message_put_packet(struct message *message, uint32_t id, uint16_t payload_bytes)
{
	static const char payload[1024] = { 0x45 };
	struct nlmsghdr *nlh = message_begin_packet(message);

	message_put_header(nlh, id);
	mnl_attr_put_u32(nlh, NFQA_IFINDEX_INDEV, htonl(7));
	mnl_attr_put_u32(nlh, NFQA_IFINDEX_OUTDEV, htonl(9));
	mnl_attr_put_u32(nlh, NFQA_MARK, htonl(0xcafe));
	mnl_attr_put_u32(nlh, NFQA_SKB_INFO, htonl(NFQA_SKB_GSO | NFQA_SKB_CSUMNOTREADY));
	mnl_attr_put(nlh, NFQA_PAYLOAD, payload_bytes, payload);
	return nlh;
}

static inline struct nlmsghdr *message_put_answer(struct message *message, int error, uint32_t sequence)
{
	struct nlmsghdr *nlh = message_begin(message, NLMSG_ERROR);
	struct nlmsgerr *body = mnl_nlmsg_put_extra_header(nlh, sizeof(*body));

	body->error = error;
	body->msg.nlmsg_len = 32;
	body->msg.nlmsg_type = (NFNL_SUBSYS_QUEUE << 8) | NFQNL_MSG_VERDICT;
	body->msg.nlmsg_seq = sequence;
	return nlh;
}

#endif
