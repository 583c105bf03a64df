/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is sent, byte by byte, and the sizes that are derived. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "../../src/libnq/internal.h"
#include "message.h"

/* Multi-byte fields of netlink are in host order, those of nfnetlink in network order. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define H16(value) (value) & 0xff, (value) >> 8
#define H32(value) (value) & 0xff, ((value) >> 8) & 0xff, ((value) >> 16) & 0xff, ((value) >> 24) & 0xff
#else
#define H16(value) (value) >> 8, (value)&0xff
#define H32(value) ((value) >> 24) & 0xff, ((value) >> 16) & 0xff, ((value) >> 8) & 0xff, (value)&0xff
#endif
#define N32(value) ((value) >> 24) & 0xff, ((value) >> 16) & 0xff, ((value) >> 8) & 0xff, (value)&0xff

#define REQUEST (NLM_F_REQUEST)
#define ACKED	(NLM_F_REQUEST | NLM_F_ACK)
#define CONFIG	((NFNL_SUBSYS_QUEUE << 8) | NFQNL_MSG_CONFIG)
#define VERDICT ((NFNL_SUBSYS_QUEUE << 8) | NFQNL_MSG_VERDICT)
#define BATCH	((NFNL_SUBSYS_QUEUE << 8) | NFQNL_MSG_VERDICT_BATCH)

static _Alignas(struct nlmsghdr) char buffer[NQ_CONFIG_BYTES_MAX];

static void bind_is_one_acknowledged_message(void **state)
{
	/* clang-format off */
	static const uint8_t expected[] = {
		H32(64), H16(CONFIG), H16(ACKED), H32(1), H32(0), /* nlmsghdr: sequence 1, port 0 */
		0, 0, 0x12, 0x34,				  /* nfgenmsg: any family, version 0, queue */
		H16(8), H16(NFQA_CFG_CMD), NFQNL_CFG_CMD_BIND, 0, 0, 0,
		H16(9), H16(NFQA_CFG_PARAMS), N32(65531), NFQNL_COPY_PACKET, 0, 0, 0,
		H16(8), H16(NFQA_CFG_QUEUE_MAXLEN), N32(1024),
		H16(8), H16(NFQA_CFG_FLAGS), N32(4),
		H16(8), H16(NFQA_CFG_MASK), N32(4),
	};
	/* clang-format on */
	struct nq_config config;
	nq_config_init(&config, 0x1234);
	config.maxlen = NQ_MAXLEN_DEFAULT;
	assert_int_equal(nq_config_put_bind(buffer, &config), sizeof(expected));
	assert_memory_equal(buffer, expected, sizeof(expected));
}

static void bind_without_flags_sends_none(void **state)
{
	/* clang-format off */
	static const uint8_t expected[] = {
		H32(48), H16(CONFIG), H16(ACKED), H32(1), H32(0),
		0, 0, 0, 3,
		H16(8), H16(NFQA_CFG_CMD), NFQNL_CFG_CMD_BIND, 0, 0, 0,
		H16(9), H16(NFQA_CFG_PARAMS), N32(128), NFQNL_COPY_PACKET, 0, 0, 0,
		H16(8), H16(NFQA_CFG_QUEUE_MAXLEN), N32(7),
	};
	/* clang-format on */
	struct nq_config config;
	nq_config_init(&config, 3);
	config.flags = 0;
	config.copy_bytes = 128;
	config.maxlen = 7;
	assert_int_equal(nq_config_put_bind(buffer, &config), sizeof(expected));
	assert_memory_equal(buffer, expected, sizeof(expected));
}

static void metadata_is_a_copy_mode_of_its_own(void **state)
{
	struct nq_config config;
	nq_config_init(&config, 0);
	config.copy_bytes = NQ_COPY_META;
	nq_config_put_bind(buffer, &config);
	assert_int_equal(buffer[28 + 4 + 4], NFQNL_COPY_META);
}

static void stop_is_fail_open_and_then_length_0(void **state)
{
	/* clang-format off */
	static const uint8_t expected[] = {
		H32(36), H16(CONFIG), H16(REQUEST), H32(0), H32(0),
		0, 0, 0xff, 0xff,
		H16(8), H16(NFQA_CFG_FLAGS), N32(1),
		H16(8), H16(NFQA_CFG_MASK), N32(1),
		H32(28), H16(CONFIG), H16(ACKED), H32(2), H32(0),
		0, 0, 0xff, 0xff,
		H16(8), H16(NFQA_CFG_QUEUE_MAXLEN), N32(0),
	};
	/* clang-format on */
	assert_int_equal(nq_config_put_stop(buffer, 0xffff), sizeof(expected));
	assert_memory_equal(buffer, expected, sizeof(expected));
}

static void pause_is_a_length_that_was_there_before(void **state)
{
	/* clang-format off */
	static const uint8_t expected[] = {
		H32(28), H16(CONFIG), H16(ACKED), H32(3), H32(0),
		0, 0, 0, 9,
		H16(8), H16(NFQA_CFG_QUEUE_MAXLEN), N32(77),
	};
	/* clang-format on */
	assert_int_equal(nq_config_put_pause(buffer, 9, 77), sizeof(expected));
	assert_memory_equal(buffer, expected, sizeof(expected));
}

static void change_takes_back_flags_that_are_not_asked_for(void **state)
{
	/* clang-format off */
	static const uint8_t expected[] = {
		H32(56), H16(CONFIG), H16(ACKED), H32(0x40000001), H32(0),
		0, 0, 0, 3,
		H16(9), H16(NFQA_CFG_PARAMS), N32(128), NFQNL_COPY_PACKET, 0, 0, 0,
		H16(8), H16(NFQA_CFG_QUEUE_MAXLEN), N32(7),
		H16(8), H16(NFQA_CFG_FLAGS), N32(0),
		H16(8), H16(NFQA_CFG_MASK), N32(0xffffffff),
	};
	/* clang-format on */
	struct nq_config config;
	nq_config_init(&config, 3);
	config.flags = 0;
	config.copy_bytes = 128;
	config.maxlen = 7;
	assert_int_equal(nq_config_put_change(buffer, &config, 0x40000001), sizeof(expected));
	assert_memory_equal(buffer, expected, sizeof(expected));
}

static void release_accepts_all_up_to_an_id(void **state)
{
	/* clang-format off */
	static const uint8_t expected[] = {
		H32(32), H16(BATCH), H16(REQUEST), H32(4), H32(0),
		0, 0, 0x01, 0x02,
		H16(12), H16(NFQA_VERDICT_HDR), N32(NF_ACCEPT), 0x80, 0, 0, 1,
	};
	/* clang-format on */
	struct nq_verdict verdict;
	nq_verdict_release(&verdict, 0x0102, 0x80000001);
	assert_int_equal(sizeof(verdict), sizeof(expected));
	assert_memory_equal(&verdict, expected, sizeof(expected));
}

static void verdict_is_32_bytes_without_payload(void **state)
{
	/* clang-format off */
	static const uint8_t expected[] = {
		H32(32), H16(VERDICT), H16(REQUEST), H32(0), H32(0),
		0, 0, 0x01, 0x02,
		H16(12), H16(NFQA_VERDICT_HDR), N32(NF_ACCEPT), 0x80, 0, 0, 1,
	};
	/* clang-format on */
	const uint8_t payload[4] = { 1, 2, 3, 4 };
	struct nq_packet packet = {
		.id = 0x80000001, .verdict = NF_ACCEPT, .mark = 9, .payload = payload, .payload_bytes = 4
	};
	assert_int_equal(nq_verdict_put(buffer, 0x0102, &packet), sizeof(expected));
	assert_memory_equal(buffer, expected, sizeof(expected));
}

static void verdict_carries_a_mark_only_if_asked(void **state)
{
	/* clang-format off */
	static const uint8_t expected[] = {
		H32(40), H16(VERDICT), H16(REQUEST), H32(0), H32(0),
		0, 0, 0, 0,
		H16(12), H16(NFQA_VERDICT_HDR), N32(NF_DROP), 0xff, 0xff, 0xff, 0xff,
		H16(8), H16(NFQA_MARK), N32(0xcafe),
	};
	/* clang-format on */
	struct nq_packet packet = { .id = UINT32_MAX, .verdict = NF_DROP, .mark = 0xcafe, .set_mark = true };
	assert_int_equal(nq_verdict_put(buffer, 0, &packet), sizeof(expected));
	assert_memory_equal(buffer, expected, sizeof(expected));
	assert_int_equal(sizeof(expected), NQ_VERDICT_BYTES_MAX);
}

static void verdicts_keep_ids_at_both_ends(void **state)
{
	static const uint32_t ids[] = { 0, 1, 0x7fffffff, 0x80000000, 0xffffffff };
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		struct nq_packet packet = { .id = ids[i], .verdict = NF_ACCEPT };
		const uint8_t expected[] = { N32(ids[i]) };
		assert_int_equal(nq_verdict_put(buffer, 0, &packet), 32);
		assert_memory_equal(buffer + 28, expected, 4);
	}
}

static void impossible_configurations_are_refused(void **state)
{
	struct nq_config config;
	struct nq_queue *queue = (struct nq_queue *)&config;
	nq_config_init(&config, 0);
	assert_int_equal(nq_config_validate(&config), 0);
	config.copy_bytes = NQ_COPY_FULL + 1;
	assert_int_equal(nq_config_validate(&config), -EINVAL);
	nq_config_init(&config, 0);
	config.burst = 0;
	assert_int_equal(nq_config_validate(&config), -EINVAL);
	config.burst = NQ_BURST_MAX + 1;
	assert_int_equal(nq_config_validate(&config), -EINVAL);
	nq_config_init(&config, 0);
	config.spin_us = NQ_SPIN_US_MAX + 1;
	assert_int_equal(nq_config_validate(&config), -EINVAL);
	assert_int_equal(nq_open(&queue, &config), -EINVAL);
	assert_null(queue);
}

/* The truesize that the kernel charges a message was measured: 64544 and 131328 for full copies, 1280 with a time stamp
 * for short ones, 832 for none. */
static void socket_buffer_holds_what_the_queue_holds(void **state)
{
	assert_int_equal(nq_rcvbuf_bytes(1024, NQ_COPY_FULL), 1024 * (131328 / 2));
	assert_int_equal(nq_rcvbuf_bytes(1024, 128), 1024 * (1280 / 2));
	assert_int_equal(nq_rcvbuf_bytes(1024, NQ_COPY_META), 1024 * (832 / 2));
	assert_in_range(nq_rcvbuf_bytes(1, 1500) * 2, 2304, 131328);
	assert_true(nq_rcvbuf_bytes(1, 3600) * 2 >= 8448);
	assert_int_equal(nq_rcvbuf_bytes(1, 1), 640);
	assert_int_equal(nq_rcvbuf_bytes(UINT32_MAX, NQ_COPY_FULL), INT32_MAX / 2);
}

static void queue_length_follows_from_the_buffer(void **state)
{
	static const uint32_t copies[] = { NQ_COPY_META, 128, 1500, NQ_COPY_FULL };

	for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++)
		assert_int_equal(nq_maxlen_fitting(nq_rcvbuf_bytes(1024, copies[i]), copies[i]), 1024);
	assert_int_equal(nq_maxlen_fitting(212992, NQ_COPY_FULL), 3);
	assert_int_equal(nq_maxlen_fitting(212992, NQ_COPY_META), 512);
	assert_int_equal(nq_maxlen_fitting(1, NQ_COPY_FULL), 1);
	assert_true(nq_maxlen_fitting(INT32_MAX, NQ_COPY_META) > 1024);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bind_is_one_acknowledged_message),
		cmocka_unit_test(bind_without_flags_sends_none),
		cmocka_unit_test(metadata_is_a_copy_mode_of_its_own),
		cmocka_unit_test(stop_is_fail_open_and_then_length_0),
		cmocka_unit_test(pause_is_a_length_that_was_there_before),
		cmocka_unit_test(change_takes_back_flags_that_are_not_asked_for),
		cmocka_unit_test(release_accepts_all_up_to_an_id),
		cmocka_unit_test(verdict_is_32_bytes_without_payload),
		cmocka_unit_test(verdict_carries_a_mark_only_if_asked),
		cmocka_unit_test(verdicts_keep_ids_at_both_ends),
		cmocka_unit_test(impossible_configurations_are_refused),
		cmocka_unit_test(socket_buffer_holds_what_the_queue_holds),
		cmocka_unit_test(queue_length_follows_from_the_buffer),
	};
	return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
