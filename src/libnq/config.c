/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Configuration messages.
 *
 * Theory of operation
 *
 *   Everything that a queue needs goes into one message: command, copy mode, length and flags. The kernel handles its
 *   attributes in that order, and refuses unknown flags before it binds. A bind on its own would leave the queue in mode
 *   COPY_NONE, which drops every packet and counts none of them.
 *
 *   Packets are not kept out while it does so: what one attribute says is in force before the next one is looked at.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <libnetfilter_queue/libnetfilter_queue.h>
#include <string.h>

#include "internal.h"

/* Charge of one message to the socket buffer as the kernel accounts it: the worst that was seen, which is a packet
 * reassembled into one linear buffer, a message with at most 128 bytes of payload, and one with none. As long as any
 * program has packets stamped with their time, as ping does, the stamp makes short messages outgrow their first size. */
#define CONFIG_CHARGE_FULL_BYTES  131328u
#define CONFIG_CHARGE_SHORT_BYTES 1280u
#define CONFIG_CHARGE_META_BYTES  832u
#define CONFIG_SHORT_BYTES	  128u

/* Of a single message; a buffer has room for two. */
#define CONFIG_MESSAGE_BYTES_MAX (NQ_CONFIG_BYTES_MAX / 2)

/* The kernel grants twice as much, in an int. */
#define CONFIG_RCVBUF_BYTES_MAX 0x3fffffffu

void nq_config_init(struct nq_config *config, uint16_t queue)
{
	*config = (struct nq_config){
		.queue = queue,
		.flags = NQ_F_GSO,
		.copy_bytes = NQ_COPY_FULL,
		.maxlen = NQ_MAXLEN_BY_SIZE,
		.rcvbuf_bytes = NQ_RCVBUF_BY_SIZE,
		.burst = NQ_BURST_DEFAULT,
	};
}

/* In between, the allocator rounds payload and headers up to a power of two, so at most doubles them. */
static uint64_t config_charge_bytes(uint32_t copy_bytes)
{
	uint64_t charge = copy_bytes == NQ_COPY_META ? CONFIG_CHARGE_META_BYTES : CONFIG_CHARGE_SHORT_BYTES;

	if (copy_bytes > CONFIG_SHORT_BYTES)
		charge = 2 * (CONFIG_CHARGE_META_BYTES + (uint64_t)copy_bytes);
	return charge < CONFIG_CHARGE_FULL_BYTES ? charge : CONFIG_CHARGE_FULL_BYTES;
}

uint32_t nq_rcvbuf_bytes(uint32_t maxlen, uint32_t copy_bytes)
{
	uint64_t bytes = (config_charge_bytes(copy_bytes) * maxlen + 1) / 2;

	return bytes > CONFIG_RCVBUF_BYTES_MAX ? CONFIG_RCVBUF_BYTES_MAX : (uint32_t)bytes;
}

uint32_t nq_maxlen_fitting(uint32_t rcvbuf_bytes, uint32_t copy_bytes)
{
	uint64_t packets = 2 * (uint64_t)rcvbuf_bytes / config_charge_bytes(copy_bytes);

	return packets ? (uint32_t)packets : 1;
}

int nq_config_validate(const struct nq_config *config)
{
	/* The kernel would take a copy range beyond its maximum for the maximum; we say what is meant. */
	if (config->copy_bytes > NQ_COPY_FULL || config->rcvbuf_bytes > INT32_MAX)
		return -EINVAL;
	if (config->burst == 0 || config->burst > NQ_BURST_MAX || config->spin_us > NQ_SPIN_US_MAX)
		return -EINVAL;
	return 0;
}

static void config_put_flags(struct nlmsghdr *nlh, uint32_t flags, uint32_t mask)
{
	mnl_attr_put_u32(nlh, NFQA_CFG_FLAGS, htonl(flags));
	mnl_attr_put_u32(nlh, NFQA_CFG_MASK, htonl(mask));
}

static struct nlmsghdr *config_begin(char *buffer, uint16_t queue, uint32_t sequence)
{
	/* The padding of attributes is sent too. */
	memset(buffer, 0, CONFIG_MESSAGE_BYTES_MAX);
	struct nlmsghdr *nlh = nfq_nlmsg_put(buffer, NFQNL_MSG_CONFIG, queue);
	nlh->nlmsg_flags |= NLM_F_ACK;
	nlh->nlmsg_seq = sequence;
	return nlh;
}

static void config_put_params(struct nlmsghdr *nlh, const struct nq_config *config)
{
	uint8_t mode = config->copy_bytes == NQ_COPY_META ? NFQNL_COPY_META : NFQNL_COPY_PACKET;

	nfq_nlmsg_cfg_put_params(nlh, mode, (int)config->copy_bytes);
	nfq_nlmsg_cfg_put_qmaxlen(nlh, config->maxlen);
}

size_t nq_config_put_bind(char buffer[NQ_CONFIG_BYTES_MAX], const struct nq_config *config)
{
	struct nlmsghdr *nlh = config_begin(buffer, config->queue, NQ_SEQUENCE_BIND);

	nfq_nlmsg_cfg_put_cmd(nlh, AF_UNSPEC, NFQNL_CFG_CMD_BIND);
	config_put_params(nlh, config);
	if (config->flags)
		config_put_flags(nlh, config->flags, config->flags);
	return nlh->nlmsg_len;
}

size_t nq_config_put_change(char buffer[NQ_CONFIG_BYTES_MAX], const struct nq_config *config, uint32_t sequence)
{
	struct nlmsghdr *nlh = config_begin(buffer, config->queue, sequence);

	config_put_params(nlh, config);
	/* Only unknown flags are refused: the mask may cover all that an owner before us has set. */
	config_put_flags(nlh, config->flags, UINT32_MAX);
	return nlh->nlmsg_len;
}

/*
 * Two messages, to be sent at once. In a single one the kernel would set the length before the flag, and drop the packets
 * that come in between.
 */
size_t nq_config_put_stop(char buffer[NQ_CONFIG_BYTES_MAX], uint16_t queue)
{
	struct nlmsghdr *open = config_begin(buffer, queue, NQ_SEQUENCE_VERDICT);
	open->nlmsg_flags = NLM_F_REQUEST; /* the answer to the second is enough */
	config_put_flags(open, NFQA_CFG_F_FAIL_OPEN, NFQA_CFG_F_FAIL_OPEN);

	struct nlmsghdr *empty = config_begin(buffer + open->nlmsg_len, queue, NQ_SEQUENCE_STOP);
	nfq_nlmsg_cfg_put_qmaxlen(empty, 0);
	return open->nlmsg_len + empty->nlmsg_len;
}

size_t nq_config_put_pause(char buffer[NQ_CONFIG_BYTES_MAX], uint16_t queue, uint32_t maxlen)
{
	struct nlmsghdr *nlh = config_begin(buffer, queue, NQ_SEQUENCE_PAUSE);

	nfq_nlmsg_cfg_put_qmaxlen(nlh, maxlen);
	return nlh->nlmsg_len;
}
