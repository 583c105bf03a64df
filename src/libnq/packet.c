/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Messages from the kernel.
 *
 * Theory of operation
 *
 *   nfnetlink_queue sends one message a datagram. It is a packet (NFQNL_MSG_PACKET), whose attributes begin with the
 *   packet header and end with the payload, or the answer to a message of ours (NLMSG_ERROR, with error 0 if it is an
 *   acknowledgement). A refused verdict is answered too, although nobody asked: such an answer is 36 or 52 bytes long
 *   and is not a packet.
 *
 *   libnetfilter_queue finds the attributes. It rounds the message's length up to a multiple of four, although the
 *   kernel does not pad the payload: so that an attribute is used only if it ends within the message, and if it is as
 *   long as what is read from it. Attributes that we do not know are skipped.
 */
#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <libnetfilter_queue/libnetfilter_queue.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>

#include "internal.h"

#define PACKET_MESSAGE_TYPE ((NFNL_SUBSYS_QUEUE << 8) | NFQNL_MSG_PACKET)

/* The attributes of one message. */
struct packet_attributes {
	struct nlattr *attr[NFQA_MAX + 1];
	const char *end;
};

/* The attribute's content, or NULL if there are not `bytes` bytes of it. */
static const void *packet_get(const struct packet_attributes *attributes, enum nfqnl_attr_type type, size_t bytes)
{
	const struct nlattr *attr = attributes->attr[type];

	if (!attr || (const char *)attr + attr->nla_len > attributes->end || mnl_attr_get_payload_len(attr) < bytes)
		return NULL;
	return mnl_attr_get_payload(attr);
}

static uint32_t packet_get_u32(const struct packet_attributes *attributes, enum nfqnl_attr_type type)
{
	uint32_t value;
	const void *content = packet_get(attributes, type, sizeof(value));

	if (!content)
		return 0;
	memcpy(&value, content, sizeof(value));
	return ntohl(value);
}

static bool packet_parse_header(const struct packet_attributes *attributes, struct nq_packet *packet)
{
	struct nfqnl_msg_packet_hdr header;
	const void *content = packet_get(attributes, NFQA_PACKET_HDR, sizeof(header));

	if (!content)
		return false;
	memcpy(&header, content, sizeof(header));
	packet->id = ntohl(header.packet_id);
	packet->ethertype = ntohs(header.hw_protocol);
	packet->hook = header.hook;
	return true;
}

static void packet_parse_payload(const struct packet_attributes *attributes, struct nq_packet *packet)
{
	uint32_t true_length = packet_get_u32(attributes, NFQA_CAP_LEN);

	packet->payload = packet_get(attributes, NFQA_PAYLOAD, 0);
	if (packet->payload)
		packet->payload_bytes = mnl_attr_get_payload_len(attributes->attr[NFQA_PAYLOAD]);
	/* The true length is there only if it differs from what was copied. */
	packet->length_bytes = true_length ? true_length : packet->payload_bytes;
}

static enum nq_message packet_parse(const struct nlmsghdr *nlh, struct nq_packet *packet)
{
	struct packet_attributes attributes = { .end = (const char *)nlh + nlh->nlmsg_len };

	if (nlh->nlmsg_len < NLMSG_HDRLEN + sizeof(struct nfgenmsg))
		return NQ_MESSAGE_MALFORMED;
	/* One that it finds malformed ends its walk; those before it have been found. */
	nfq_nlmsg_parse(nlh, attributes.attr);

	*packet = (struct nq_packet){ .verdict = NF_ACCEPT };
	if (!packet_parse_header(&attributes, packet))
		return NQ_MESSAGE_MALFORMED;
	packet->mark = packet_get_u32(&attributes, NFQA_MARK);
	packet->in_ifindex = packet_get_u32(&attributes, NFQA_IFINDEX_INDEV);
	packet->out_ifindex = packet_get_u32(&attributes, NFQA_IFINDEX_OUTDEV);
	packet->skb_info = packet_get_u32(&attributes, NFQA_SKB_INFO);
	packet_parse_payload(&attributes, packet);
	return NQ_MESSAGE_PACKET;
}

static enum nq_message packet_parse_answer(const struct nlmsghdr *nlh, struct nq_answer *answer)
{
	struct nlmsgerr error;

	if (nlh->nlmsg_len < NLMSG_HDRLEN + sizeof(error))
		return NQ_MESSAGE_MALFORMED;
	memcpy(&error, mnl_nlmsg_get_payload(nlh), sizeof(error));
	answer->sequence = error.msg.nlmsg_seq;
	answer->error = error.error;
	return NQ_MESSAGE_ANSWER;
}

enum nq_message nq_message_parse(void *datagram, size_t bytes, bool truncated, struct nq_packet *packet,
				 struct nq_answer *answer)
{
	struct nlmsghdr *nlh = datagram;

	if (bytes < sizeof(*nlh) || nlh->nlmsg_len < sizeof(*nlh))
		return NQ_MESSAGE_MALFORMED;
	if (nlh->nlmsg_len > bytes) {
		if (!truncated)
			return NQ_MESSAGE_MALFORMED;
		/* An attribute that is cut off lies beyond this length, and so is not found. */
		nlh->nlmsg_len = (uint32_t)bytes;
	}
	switch (nlh->nlmsg_type) {
	case PACKET_MESSAGE_TYPE:
		return packet_parse(nlh, packet);
	case NLMSG_ERROR:
		return packet_parse_answer(nlh, answer);
	default:
		return NQ_MESSAGE_OTHER;
	}
}
