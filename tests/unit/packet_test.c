/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The parser of what the kernel sends: right values from right messages, and nothing read beyond any message. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "../../src/libnq/internal.h"
#include "message.h"

static struct nq_packet packet;
static struct nq_answer answer;

/* Parses a copy in a buffer that ends with it, so that address sanitizer and valgrind see a byte too many. */
static enum nq_message parse(const void *bytes, size_t length, bool truncated)
{
	char *copy = malloc(length ? length : 1);
	assert_non_null(copy);
	memcpy(copy, bytes, length);
	packet = (struct nq_packet){ .id = 0xdeadbeef };
	enum nq_message result = nq_message_parse(copy, length, truncated ? MSG_TRUNC : 0, &packet, &answer);
	packet.payload = packet.payload ? (const uint8_t *)bytes + (packet.payload - (const uint8_t *)copy) : NULL;
	free(copy);
	return result;
}

static enum nq_message parse_message(const struct nlmsghdr *nlh)
{
	return parse(nlh, nlh->nlmsg_len, false);
}

static void packet_has_every_field(void **state)
{
	struct message message;
	struct nlmsghdr *nlh = message_put_packet(&message, 42, 100);
	assert_int_equal(parse_message(nlh), NQ_MESSAGE_PACKET);
	assert_int_equal(packet.id, 42);
	assert_int_equal(packet.ethertype, 0x86dd);
	assert_int_equal(packet.hook, 2);
	assert_int_equal(packet.in_ifindex, 7);
	assert_int_equal(packet.out_ifindex, 9);
	assert_int_equal(packet.mark, 0xcafe);
	assert_int_equal(packet.skb_info, NFQA_SKB_GSO | NFQA_SKB_CSUMNOTREADY);
	assert_int_equal(packet.payload_bytes, 100);
	assert_int_equal(packet.length_bytes, 100);
	assert_int_equal(packet.payload[0], 0x45);
	assert_int_equal(packet.verdict, NF_ACCEPT);
	assert_false(packet.set_mark);
}

static void ids_keep_all_32_bits(void **state)
{
	static const uint32_t ids[] = { 0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x01020304 };
	struct message message;
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		assert_int_equal(parse_message(message_put_packet(&message, ids[i], 20)), NQ_MESSAGE_PACKET);
		assert_int_equal(packet.id, ids[i]);
	}
}

static void true_length_of_a_truncated_packet_is_told(void **state)
{
	struct message message;
	struct nlmsghdr *nlh = message_put_packet(&message, 1, 128);
	mnl_attr_put_u32(nlh, NFQA_CAP_LEN, htonl(195532)); /* BIG TCP: more than 16 bits */
	assert_int_equal(parse_message(nlh), NQ_MESSAGE_PACKET);
	assert_int_equal(packet.payload_bytes, 128);
	assert_int_equal(packet.length_bytes, 195532);
}

static void packet_without_payload_has_no_length(void **state)
{
	struct message message;
	struct nlmsghdr *nlh = message_begin_packet(&message);
	message_put_header(nlh, 5);
	assert_int_equal(parse_message(nlh), NQ_MESSAGE_PACKET);
	assert_null(packet.payload);
	assert_int_equal(packet.payload_bytes, 0);
	assert_int_equal(packet.length_bytes, 0);
	assert_int_equal(packet.in_ifindex, 0);
}

static void unknown_attributes_are_skipped(void **state)
{
	struct message message;
	struct nlmsghdr *nlh = message_begin_packet(&message);
	mnl_attr_put_u32(nlh, 999, 1);
	message_put_header(nlh, 6);
	mnl_attr_put_u32(nlh, NFQA_MAX + 1, 1);
	mnl_attr_put_u32(nlh, NFQA_PRIORITY, htonl(4));
	mnl_attr_put_u32(nlh, NFQA_MARK, htonl(3));
	assert_int_equal(parse_message(nlh), NQ_MESSAGE_PACKET);
	assert_int_equal(packet.id, 6);
	assert_int_equal(packet.mark, 3);
}

static void packet_without_header_is_malformed(void **state)
{
	struct message message;
	struct nlmsghdr *nlh = message_begin_packet(&message);
	assert_int_equal(parse_message(nlh), NQ_MESSAGE_MALFORMED);
	mnl_attr_put_u32(nlh, NFQA_MARK, htonl(3));
	assert_int_equal(parse_message(nlh), NQ_MESSAGE_MALFORMED);
}

static void short_header_attribute_is_malformed(void **state)
{
	struct message message;
	struct nlmsghdr *nlh = message_begin_packet(&message);
	mnl_attr_put_u32(nlh, NFQA_PACKET_HDR, htonl(1)); /* 4 bytes of 7 */
	assert_int_equal(parse_message(nlh), NQ_MESSAGE_MALFORMED);
}

/* The packet can still be answered, which is what counts. */
static void short_attribute_tells_nothing(void **state)
{
	struct message message;
	struct nlmsghdr *nlh = message_begin_packet(&message);
	message_put_header(nlh, 8);
	mnl_attr_put_u16(nlh, NFQA_CAP_LEN, 0xffff);
	mnl_attr_put(nlh, NFQA_PAYLOAD, 20, "01234567890123456789");
	assert_int_equal(parse_message(nlh), NQ_MESSAGE_PACKET);
	assert_int_equal(packet.id, 8);
	assert_int_equal(packet.payload_bytes, 20);
	assert_int_equal(packet.length_bytes, 20);
}

/* Each attribute in each place, so that none depends on what came before it. */
static void order_of_attributes_does_not_matter(void **state)
{
	static const uint16_t types[] = { NFQA_IFINDEX_INDEV, NFQA_IFINDEX_OUTDEV, NFQA_MARK,
					  NFQA_CAP_LEN,	      NFQA_SKB_INFO,	   NFQA_PACKET_HDR };
	const size_t count = sizeof(types) / sizeof(types[0]);
	struct message message;

	for (size_t first = 0; first < count; first++) {
		for (size_t step = 1; step <= count - 1; step += count - 2) { /* forwards and backwards */
			struct nlmsghdr *nlh = message_begin_packet(&message);
			for (size_t i = 0; i < count; i++) {
				uint16_t type = types[(first + i * step) % count];
				if (type == NFQA_PACKET_HDR)
					message_put_header(nlh, 77);
				else
					mnl_attr_put_u32(nlh, type, htonl(1000u + type));
			}
			mnl_attr_put(nlh, NFQA_PAYLOAD, 20, "01234567890123456789");
			assert_int_equal(parse_message(nlh), NQ_MESSAGE_PACKET);
			assert_int_equal(packet.id, 77);
			assert_int_equal(packet.in_ifindex, 1000 + NFQA_IFINDEX_INDEV);
			assert_int_equal(packet.out_ifindex, 1000 + NFQA_IFINDEX_OUTDEV);
			assert_int_equal(packet.mark, 1000 + NFQA_MARK);
			assert_int_equal(packet.length_bytes, 1000 + NFQA_CAP_LEN);
			assert_int_equal(packet.skb_info, 1000 + NFQA_SKB_INFO);
			assert_int_equal(packet.payload_bytes, 20);
		}
	}
}

static void hardware_address_and_times_are_passed_over(void **state)
{
	const struct nfqnl_msg_packet_hw address = { .hw_addrlen = htons(6) };
	const struct nfqnl_msg_packet_timestamp time = { .sec = 1 };
	struct message message;
	struct nlmsghdr *nlh = message_begin_packet(&message);

	message_put_header(nlh, 9);
	mnl_attr_put_u32(nlh, NFQA_IFINDEX_INDEV, htonl(7));
	mnl_attr_put(nlh, NFQA_HWADDR, sizeof(address), &address);
	mnl_attr_put(nlh, NFQA_TIMESTAMP, sizeof(time), &time);
	mnl_attr_put(nlh, NFQA_SECCTX, 12, "system_u:obj");
	mnl_attr_put_u32(nlh, NFQA_SKB_INFO, htonl(NFQA_SKB_GSO));
	mnl_attr_put(nlh, NFQA_PAYLOAD, 20, "01234567890123456789");
	assert_int_equal(parse_message(nlh), NQ_MESSAGE_PACKET);
	assert_int_equal(packet.in_ifindex, 7);
	assert_int_equal(packet.skb_info, NFQA_SKB_GSO);
	assert_int_equal(packet.payload_bytes, 20);
}

/* The kernel does not pad the last attribute. */
static void payload_of_any_length_is_exact(void **state)
{
	struct message message;
	for (uint16_t length = 1; length < 64; length++) {
		struct nlmsghdr *nlh = message_put_packet(&message, 3, length);
		size_t bytes = nlh->nlmsg_len - (MNL_ALIGN(length) - length);
		nlh->nlmsg_len = (uint32_t)bytes;
		assert_int_equal(parse(nlh, bytes, false), NQ_MESSAGE_PACKET);
		assert_int_equal(packet.payload_bytes, length);
		assert_int_equal(packet.payload[0], 0x45);
		if (length > 1) {
			nlh->nlmsg_len--;
			assert_int_equal(parse(nlh, bytes - 1, false), NQ_MESSAGE_PACKET);
			assert_null(packet.payload);
		}
	}
}

static void attribute_longer_than_its_message_is_not_read(void **state)
{
	struct message message;
	struct nlmsghdr *nlh = message_begin_packet(&message);
	struct nlattr *attr;
	message_put_header(nlh, 9);
	attr = mnl_nlmsg_get_payload_tail(nlh);
	mnl_attr_put(nlh, NFQA_PAYLOAD, 20, "01234567890123456789");
	attr->nla_len = 60000;
	assert_int_equal(parse_message(nlh), NQ_MESSAGE_PACKET);
	assert_null(packet.payload);
	attr->nla_len = 2; /* less than its own header */
	assert_int_equal(parse_message(nlh), NQ_MESSAGE_PACKET);
	assert_null(packet.payload);
}

/* Whatever length a datagram is cut to, the parser stays inside it; the kernel's own mark (MSG_TRUNC) saves the id. */
static void every_cut_is_survived(void **state)
{
	struct message message;
	struct nlmsghdr *nlh = message_put_packet(&message, 77, 64);
	size_t whole = nlh->nlmsg_len;
	for (size_t length = 0; length < whole; length++) {
		assert_int_equal(parse(nlh, length, false), NQ_MESSAGE_MALFORMED);
		enum nq_message cut = parse(nlh, length, true);
		if (length >=
		    NLMSG_HDRLEN + sizeof(struct nfgenmsg) + NLA_HDRLEN + sizeof(struct nfqnl_msg_packet_hdr)) {
			assert_int_equal(cut, NQ_MESSAGE_PACKET);
			assert_int_equal(packet.id, 77);
			assert_null(packet.payload);
		} else {
			assert_int_equal(cut, NQ_MESSAGE_MALFORMED);
		}
	}
}

/* A message may claim any length: only one that lies within the datagram and holds its headers is read. */
static void every_claimed_length_is_survived(void **state)
{
	struct message message;
	struct nlmsghdr *nlh = message_put_packet(&message, 78, 64);
	uint32_t whole = nlh->nlmsg_len;
	for (uint32_t claim = 0; claim < whole; claim++) {
		nlh->nlmsg_len = claim;
		enum nq_message result = parse(nlh, whole, false);
		assert_true(result == NQ_MESSAGE_PACKET || result == NQ_MESSAGE_MALFORMED);
		if (claim < NLMSG_HDRLEN + sizeof(struct nfgenmsg))
			assert_int_equal(result, NQ_MESSAGE_MALFORMED);
	}
	nlh->nlmsg_len = UINT32_MAX;
	assert_int_equal(parse(nlh, whole, false), NQ_MESSAGE_MALFORMED);
}

/* One flipped byte anywhere: a packet, or refused, but never a read outside. */
static void every_changed_byte_is_survived(void **state)
{
	struct message message;
	struct nlmsghdr *nlh = message_put_packet(&message, 79, 64);
	size_t whole = nlh->nlmsg_len;
	unsigned int packets = 0;
	for (size_t at = 0; at < whole; at++) {
		for (unsigned int bit = 0; bit < 8; bit++) {
			message.bytes[at] ^= (char)(1u << bit);
			packets += parse(nlh, whole, false) == NQ_MESSAGE_PACKET;
			message.bytes[at] ^= (char)(1u << bit);
		}
	}
	assert_in_range(packets, 1, whole * 8);
}

static void answer_carries_error_and_sequence(void **state)
{
	struct message message;
	assert_int_equal(parse_message(message_put_answer(&message, -ENOENT, 0)), NQ_MESSAGE_ANSWER);
	assert_int_equal(answer.error, -ENOENT);
	assert_int_equal(answer.sequence, 0);
	assert_int_equal(parse_message(message_put_answer(&message, 0, NQ_SEQUENCE_STOP)), NQ_MESSAGE_ANSWER);
	assert_int_equal(answer.error, 0);
	assert_int_equal(answer.sequence, NQ_SEQUENCE_STOP);
}

static void cut_answer_is_malformed(void **state)
{
	struct message message;
	struct nlmsghdr *nlh = message_put_answer(&message, -ENOENT, 0);
	nlh->nlmsg_len -= 4;
	assert_int_equal(parse_message(nlh), NQ_MESSAGE_MALFORMED);
}

static void other_messages_are_no_packets(void **state)
{
	struct message message;
	assert_int_equal(parse_message(message_begin(&message, NLMSG_DONE)), NQ_MESSAGE_OTHER);
	assert_int_equal(parse_message(message_begin(&message, (NFNL_SUBSYS_ULOG << 8))), NQ_MESSAGE_OTHER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packet_has_every_field),
		cmocka_unit_test(ids_keep_all_32_bits),
		cmocka_unit_test(true_length_of_a_truncated_packet_is_told),
		cmocka_unit_test(packet_without_payload_has_no_length),
		cmocka_unit_test(unknown_attributes_are_skipped),
		cmocka_unit_test(packet_without_header_is_malformed),
		cmocka_unit_test(short_header_attribute_is_malformed),
		cmocka_unit_test(short_attribute_tells_nothing),
		cmocka_unit_test(order_of_attributes_does_not_matter),
		cmocka_unit_test(hardware_address_and_times_are_passed_over),
		cmocka_unit_test(payload_of_any_length_is_exact),
		cmocka_unit_test(attribute_longer_than_its_message_is_not_read),
		cmocka_unit_test(every_cut_is_survived),
		cmocka_unit_test(every_claimed_length_is_survived),
		cmocka_unit_test(every_changed_byte_is_survived),
		cmocka_unit_test(answer_carries_error_and_sequence),
		cmocka_unit_test(cut_answer_is_malformed),
		cmocka_unit_test(other_messages_are_no_packets),
	};
	return cmocka_run_group_tests_name("packet", tests, NULL, NULL);
}
