/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of libnq share and nobody else needs. */
#ifndef NQ_INTERNAL_H
#define NQ_INTERNAL_H

#include <arpa/inet.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <stddef.h>

#include "nq.h"

struct mmsghdr;

/* What a message needs beside the payload: headers and every attribute that a queue can send, with room to spare. */
#define NQ_MESSAGE_OVERHEAD 2048u

/* A verdict with a mark. */
#define NQ_VERDICT_BYTES_MAX 40u

/* Room for any of our configuration messages. */
#define NQ_CONFIG_BYTES_MAX 256u

/* Sequence numbers tell the kernel's answers apart. A verdict asks for none, and is answered only when refused. */
enum nq_sequence { NQ_SEQUENCE_VERDICT = 0, NQ_SEQUENCE_BIND = 1, NQ_SEQUENCE_STOP = 2 };

/* config.c: each builds one whole message in `buffer` and returns its length. */
size_t nq_config_put_bind(char buffer[NQ_CONFIG_BYTES_MAX], const struct nq_config *config);
size_t nq_config_put_stop(char buffer[NQ_CONFIG_BYTES_MAX], uint16_t queue);
int nq_config_validate(const struct nq_config *config);

/* packet.c */

/* What a datagram from the kernel turned out to be. */
enum nq_message { NQ_MESSAGE_PACKET, NQ_MESSAGE_ANSWER, NQ_MESSAGE_OTHER, NQ_MESSAGE_MALFORMED };

/* The kernel's answer to a message of ours; error 0 is an acknowledgement. */
struct nq_answer {
	uint32_t sequence;
	int error; /* 0 or a negative errno */
};

/*
 * Reads one datagram of `bytes` bytes, which holds one message: fills in *packet or *answer, as the return value says.
 * `flags` are recvmsg()'s: with MSG_TRUNC the datagram was longer than the buffer, and the id of its packet is still
 * found, because the kernel puts it first.
 */
enum nq_message nq_message_parse(void *datagram, size_t bytes, int flags, struct nq_packet *packet,
				 struct nq_answer *answer);

/* What is no packet. */
typedef void nq_notice_fn(void *context, enum nq_message kind, const struct nq_answer *answer);

/* Reads what recvmmsg() has received: packets into packets[], whose number is returned, all else goes to `notice`. */
unsigned int nq_burst_parse(const struct mmsghdr messages[], unsigned int received, struct nq_packet packets[],
			    nq_notice_fn *notice, void *context);

/* verdict.c */

/* A verdict as it lies in the message, without a mark. Everything in it is a multiple of four bytes long. */
struct nq_verdict {
	struct nlmsghdr nlh;
	struct nfgenmsg nfg;
	struct nlattr attr;
	struct nfqnl_msg_verdict_hdr verdict;
};

/* A verdict of this queue that lacks only the packet. */
void nq_verdict_init(struct nq_verdict *verdict, uint16_t queue);

/* Completes such a verdict. */
static inline void nq_verdict_set(struct nq_verdict *verdict, const struct nq_packet *packet)
{
	verdict->verdict.verdict = htonl(packet->verdict);
	verdict->verdict.id = htonl(packet->id);
}

/* Builds one that carries the packet's mark if it is to be set; returns its length, a multiple of 4. */
size_t nq_verdict_put(char buffer[NQ_VERDICT_BYTES_MAX], uint16_t queue, const struct nq_packet *packet);

/* status.c */
int nq_status_open(void);
int nq_status_find(int fd, uint16_t queue, struct nq_status *status);

/* A counter has one writer, the queue's thread; other threads read it. A plain load and store is enough to add. */
static inline void nq_count(uint64_t *counter, uint64_t n)
{
	__atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

#endif
