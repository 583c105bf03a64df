/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A recording: the datagrams of a queue, byte for byte as the kernel sent them.
 *
 *   u32  flags of the queue's nq_config
 *   u32  copy_bytes of the queue's nq_config
 *   then for each datagram:
 *   u32  its length in bytes
 *   u8[] the datagram, a netlink message
 *
 * All in the byte order of the machine that recorded, since netlink is: little-endian.
 */
#ifndef RECORDING_H
#define RECORDING_H

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>
#include <stdint.h>

#define RECORDING_PACKET ((NFNL_SUBSYS_QUEUE << 8) | NFQNL_MSG_PACKET)

struct recording_head {
	uint32_t flags;
	uint32_t copy_bytes;
};

#endif
