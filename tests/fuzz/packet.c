/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The parser of datagrams, with any datagrams: the first byte says whether they were cut, the second how many bytes the
 * first of two has. What it finds lies within the datagram, and the packets and the notices are as many as datagrams.
 */
#include <string.h>
#include <sys/socket.h>

#include "internal.h"
#include "replay.h"

static void packet_check(const struct nq_packet *packet, const char *datagram, size_t bytes)
{
	const char *payload = (const char *)packet->payload;

	PROMISE(packet->verdict == NF_ACCEPT && !packet->set_mark);
	PROMISE(payload || packet->payload_bytes == 0);
	if (payload) {
		PROMISE(payload >= datagram + sizeof(struct nlmsghdr) && payload <= datagram + bytes);
		PROMISE(packet->payload_bytes <= (size_t)(datagram + bytes - payload));
	}
	/* What a processor does, and a sanitizer sees. */
	unsigned int sum = 0;
	for (uint32_t i = 0; i < packet->payload_bytes; i++)
		sum += packet->payload[i];
	PROMISE(sum <= 255u * packet->payload_bytes);
}

static void packet_check_last(const struct nq_packet *packet, char *datagrams[2], const size_t bytes[2], bool is_second)
{
	const char *payload = (const char *)packet->payload;
	bool in_first = payload >= datagrams[0] && payload <= datagrams[0] + bytes[0];
	unsigned int from = is_second || (payload && !in_first) ? 1 : 0;

	packet_check(packet, datagrams[from], bytes[from]);
}

static void packet_take_notice(void *context, enum nq_message kind, const struct nq_answer *answer)
{
	PROMISE(kind != NQ_MESSAGE_PACKET);
	if (kind == NQ_MESSAGE_ANSWER && answer->error == INT32_MIN)
		fputs("", stderr); /* it was there to be read */
	++*(unsigned int *)context;
}

static void packet_parse_two(char *datagrams[2], const size_t bytes[2], int flags)
{
	struct iovec iovecs[2];
	struct mmsghdr messages[2] = { 0 };
	struct nq_packet packets[2];
	unsigned int notices = 0;

	for (int i = 0; i < 2; i++) {
		iovecs[i] = (struct iovec){ datagrams[i], bytes[i] };
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = &iovecs[i], .msg_iovlen = 1, .msg_flags = flags };
		messages[i].msg_len = (unsigned int)bytes[i];
	}
	unsigned int count = nq_burst_parse(messages, 2, packets, packet_take_notice, &notices);
	PROMISE(count <= 2 && count + notices == 2);
	if (count == 2)
		packet_check(&packets[0], datagrams[0], bytes[0]);
	/* A lone one comes from either, and the last of two from the second. */
	if (count > 0)
		packet_check_last(&packets[count - 1], datagrams, bytes, count == 2);
}

static void packet_parse_one(char *datagram, size_t bytes, int flags)
{
	struct nq_packet packet;
	struct nq_answer answer = { 0 };

	if (nq_message_parse(datagram, bytes, flags, &packet, &answer) == NQ_MESSAGE_PACKET)
		packet_check(&packet, datagram, bytes);
}

/* Of its exact size, and aligned as buffers are. */
static char *packet_copy(const uint8_t *data, size_t bytes)
{
	char *copy = malloc(bytes ? bytes : 1);

	PROMISE(copy);
	memcpy(copy, data, bytes);
	return copy;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	if (bytes < 2)
		return 0;
	int flags = data[0] & 1 ? MSG_TRUNC : 0;
	size_t all = bytes - 2;
	size_t first = data[1] < all ? data[1] : all;
	size_t parts[2] = { first, all - first };
	char *one = packet_copy(data + 2, all);
	char *two[2] = { packet_copy(data + 2, first), packet_copy(data + 2 + first, all - first) };

	packet_parse_one(one, all, flags);
	packet_parse_two(two, parts, flags);
	free(one);
	free(two[0]);
	free(two[1]);
	return 0;
}

REPLAY("tests/fuzz/corpus/packet")
