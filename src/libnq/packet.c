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
 *   Every packet comes by here, so the attributes are taken by hand: a library that lists them first takes ten times the
 *   instructions. The kernel puts them in one order, which no version has changed; each is tried where it should be, and
 *   what comes otherwise is left to a walk that expects nothing. Both trust nothing. An attribute counts only if it ends
 *   within the message, and only if it is as long as what is read from it; one whose length makes no sense ends the walk.
 *   The kernel does not pad the payload, so the last attribute need not end on a multiple of four. Attributes that we do
 *   not know are skipped.
 */
#include <arpa/inet.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>

#include "internal.h"

#define PACKET_MESSAGE_TYPE ((NFNL_SUBSYS_QUEUE << 8) | NFQNL_MSG_PACKET)

/* Without the bits for nesting and byte order. */
#define PACKET_ATTRIBUTE_TYPE 0x3fffu

/* The first four bytes of an attribute with so many bytes of content. */
#define PACKET_HEAD(type, bytes)                                                                                       \
	((uint32_t)(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? (type) << 16 | (4 + (bytes)) :                         \
								(4 + (bytes)) << 16 | (type)))

static inline uint32_t packet_load(const char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

/* Is this attribute here, with all of its content? */
static inline bool packet_is_at(const char *at, const char *end, uint32_t head, long bytes)
{
	return end - at >= 4 + bytes && packet_load(at) == head;
}

/* Takes the number if it is the next attribute; returns where the next one is. */
static inline const char *packet_take_u32(const char *at, const char *end, unsigned int type, uint32_t *value)
{
	if (!packet_is_at(at, end, PACKET_HEAD(type, 4u), 4))
		return at;
	*value = ntohl(packet_load(at + 4));
	return at + 8;
}

static inline void packet_take_header(const char *content, struct nq_packet *packet)
{
	struct nfqnl_msg_packet_hdr header;

	memcpy(&header, content, sizeof(header));
	packet->id = ntohl(header.packet_id);
	packet->ethertype = ntohs(header.hw_protocol);
	packet->hook = header.hook;
}

/* Takes what comes behind the packet header, in the kernel's order; returns where that ends. */
static inline const char *packet_take_expected(const char *at, const char *end, struct nq_packet *packet)
{
	const long address_bytes = sizeof(struct nfqnl_msg_packet_hw);

	at = packet_take_u32(at, end, NFQA_IFINDEX_INDEV, &packet->in_ifindex);
	at = packet_take_u32(at, end, NFQA_IFINDEX_OUTDEV, &packet->out_ifindex);
	at = packet_take_u32(at, end, NFQA_MARK, &packet->mark);
	if (packet_is_at(at, end, PACKET_HEAD(NFQA_HWADDR, sizeof(struct nfqnl_msg_packet_hw)), address_bytes))
		at += 4 + address_bytes;
	/* The true length is there only if it differs from what was copied. */
	at = packet_take_u32(at, end, NFQA_CAP_LEN, &packet->length_bytes);
	return packet_take_u32(at, end, NFQA_SKB_INFO, &packet->skb_info);
}

static bool packet_take_attribute(const char *at, size_t bytes, struct nq_packet *packet)
{
	uint32_t *number = NULL;
	struct nlattr attr;

	memcpy(&attr, at, sizeof(attr));
	switch (attr.nla_type & PACKET_ATTRIBUTE_TYPE) {
	case NFQA_PACKET_HDR:
		if (bytes < sizeof(struct nfqnl_msg_packet_hdr))
			return false;
		packet_take_header(at + sizeof(attr), packet);
		return true;
	case NFQA_PAYLOAD:
		packet->payload = (const uint8_t *)at + sizeof(attr);
		packet->payload_bytes = (uint32_t)bytes;
		return false;
	case NFQA_MARK:
		number = &packet->mark;
		break;
	case NFQA_IFINDEX_INDEV:
		number = &packet->in_ifindex;
		break;
	case NFQA_IFINDEX_OUTDEV:
		number = &packet->out_ifindex;
		break;
	case NFQA_SKB_INFO:
		number = &packet->skb_info;
		break;
	case NFQA_CAP_LEN:
		number = &packet->length_bytes;
		break;
	default:
		break;
	}
	if (number && bytes >= sizeof(*number))
		*number = ntohl(packet_load(at + sizeof(attr)));
	return false;
}

/* Takes what is left, in any order; returns whether the packet header was among it. */
static __attribute__((noinline)) bool packet_take_rest(const char *at, const char *end, struct nq_packet *packet)
{
	bool found = false;

	while (end - at >= (long)sizeof(struct nlattr)) {
		struct nlattr attr;
		memcpy(&attr, at, sizeof(attr));
		if (attr.nla_len < sizeof(attr) || attr.nla_len > end - at)
			break;
		found |= packet_take_attribute(at, attr.nla_len - sizeof(attr), packet);
		long step = (attr.nla_len + 3) & ~3;
		if (step >= end - at)
			break;
		at += step;
	}
	return found;
}

/* The payload comes last. */
static inline bool packet_take_payload(const char *at, const char *end, struct nq_packet *packet)
{
	long bytes = end - at - 4;

	if (bytes < 0 || bytes > UINT16_MAX - 4 || packet_load(at) != PACKET_HEAD(NFQA_PAYLOAD, (uint32_t)bytes))
		return false;
	packet->payload = (const uint8_t *)at + 4;
	packet->payload_bytes = (uint32_t)bytes;
	return true;
}

static inline __attribute__((always_inline)) enum nq_message packet_parse(const struct nlmsghdr *nlh,
									  struct nq_packet *packet)
{
	const char *at = (const char *)(nlh + 1) + sizeof(struct nfgenmsg);
	const char *end = (const char *)nlh + nlh->nlmsg_len;
	const uint32_t head = PACKET_HEAD(NFQA_PACKET_HDR, sizeof(struct nfqnl_msg_packet_hdr));
	bool found = true;

	*packet = (struct nq_packet){ .verdict = NF_ACCEPT };
	if (end - at >= 12 && packet_load(at) == head) {
		packet_take_header(at + 4, packet);
		at = packet_take_expected(at + 12, end, packet);
		if (!packet_take_payload(at, end, packet))
			packet_take_rest(at, end, packet);
	} else {
		found = packet_take_rest(at, end, packet);
	}
	if (!packet->length_bytes)
		packet->length_bytes = packet->payload_bytes;
	return found ? NQ_MESSAGE_PACKET : NQ_MESSAGE_MALFORMED;
}

static enum nq_message packet_parse_answer(const struct nlmsghdr *nlh, struct nq_answer *answer)
{
	const struct nlmsgerr *error = (const void *)(nlh + 1);

	if (nlh->nlmsg_len < sizeof(*nlh) + sizeof(*error))
		return NQ_MESSAGE_MALFORMED;
	answer->sequence = error->msg.nlmsg_seq;
	answer->error = error->error;
	return NQ_MESSAGE_ANSWER;
}

static enum nq_message packet_parse_other(const struct nlmsghdr *nlh, struct nq_answer *answer)
{
	if (nlh->nlmsg_type == NLMSG_ERROR)
		return packet_parse_answer(nlh, answer);
	return nlh->nlmsg_type == PACKET_MESSAGE_TYPE ? NQ_MESSAGE_MALFORMED : NQ_MESSAGE_OTHER;
}

/* Is it a message that is there as a whole, or as far as the buffer went? */
static inline bool packet_is_whole(struct nlmsghdr *nlh, size_t bytes, int flags)
{
	if (bytes < sizeof(*nlh) || nlh->nlmsg_len < sizeof(*nlh))
		return false;
	if (nlh->nlmsg_len <= bytes)
		return true;
	/* An attribute that is cut off lies beyond this length, and so is not found. */
	nlh->nlmsg_len = (uint32_t)bytes;
	return flags & MSG_TRUNC;
}

static inline bool packet_is_packet(const struct nlmsghdr *nlh)
{
	return nlh->nlmsg_type == PACKET_MESSAGE_TYPE && nlh->nlmsg_len >= sizeof(*nlh) + sizeof(struct nfgenmsg);
}

enum nq_message nq_message_parse(void *datagram, size_t bytes, int flags, struct nq_packet *packet,
				 struct nq_answer *answer)
{
	if (!packet_is_whole(datagram, bytes, flags))
		return NQ_MESSAGE_MALFORMED;
	return packet_is_packet(datagram) ? packet_parse(datagram, packet) : packet_parse_other(datagram, answer);
}

unsigned int nq_burst_parse(const struct mmsghdr messages[], unsigned int received, struct nq_packet packets[],
			    nq_notice_fn *notice, void *context)
{
	struct nq_packet *packet = packets;

	for (const struct mmsghdr *message = messages; message < messages + received; message++) {
		void *datagram = message->msg_hdr.msg_iov->iov_base;
		struct nq_answer answer;
		enum nq_message kind = NQ_MESSAGE_MALFORMED;
		if (packet_is_whole(datagram, message->msg_len, message->msg_hdr.msg_flags)) {
			if (packet_is_packet(datagram))
				kind = packet_parse(datagram, packet);
			else
				kind = packet_parse_other(datagram, &answer);
		}
		if (kind == NQ_MESSAGE_PACKET)
			packet++;
		else
			notice(context, kind, &answer);
	}
	return (unsigned int)(packet - packets);
}
