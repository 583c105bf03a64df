/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the files of libnq share and nobody else needs. */
#ifndef NQ_INTERNAL_H
#define NQ_INTERNAL_H

#include <arpa/inet.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <stddef.h>
#include <sys/socket.h>

#include "nq.h"

/* What a message needs beside the payload: headers and every attribute that a queue can send, with room to spare. */
#define NQ_MESSAGE_OVERHEAD 2048u

/* A verdict with a mark. */
#define NQ_VERDICT_BYTES_MAX 40u

/* Room for any of our configuration messages. */
#define NQ_CONFIG_BYTES_MAX 256u

/*
 * Sequence numbers tell the kernel's answers apart. A verdict asks for none, and is answered only when refused.
 *
 * A socket that was adopted may still hold answers to its last owner. Those to a stop or a pause count only if we asked
 * for one; an adoption takes a number of its own from NQ_SEQUENCE_ADOPT on.
 */
enum nq_sequence {
	NQ_SEQUENCE_VERDICT = 0,
	NQ_SEQUENCE_BIND = 1,
	NQ_SEQUENCE_STOP = 2,
	NQ_SEQUENCE_PAUSE = 3,
	NQ_SEQUENCE_RELEASE = 4,
	NQ_SEQUENCE_ADOPT = 0x40000000,
};

/* Where a queue's account begins: what the kernel had counted by then is not ours. */
struct nq_origin {
	uint64_t ids_skipped; /* ids behind the first one seen, of packets that were dropped before */
	uint64_t socket_drops;
	uint64_t user_dropped;
};

struct nq_queue {
	int fd;
	int status_fd; /* -errno if /proc did not let us */
	uint16_t number;
	unsigned int burst;
	uint32_t flags;
	uint32_t copy_bytes;
	uint32_t maxlen;
	uint32_t rcvbuf_granted;
	uint32_t last_id;
	int64_t spin_ns;
	unsigned int spins_left_out; /* at the last time */
	unsigned int spins_to_leave_out;
	unsigned int spins_in_vain; /* in a row */
	uint32_t asked;		    /* NQ_SEQUENCE_STOP or _PAUSE, or 0; set by any thread, atomically */
	bool asked_sent;	    /* atomic: the kernel's answer is in the socket, if it found room */
	uint64_t answers_lost;	    /* atomic: those that did not */
	int end;		    /* 0, or what nq_receive() returns from now on */
	uint32_t adopt_sequence;
	uint32_t adopt_id;    /* the kernel's last id before the adoption; 0 = not known */
	bool orphans;	      /* packets that the last owner had read may still wait */
	bool origin_is_known; /* atomic */
	struct nq_origin origin;
	struct nq_counters counters;
	struct mmsghdr *messages;
	struct iovec *iovecs;
	char *buffers;
	struct nq_verdict *verdicts; /* complete but for the packets */
	unsigned int verdicts_prepared;
	char *marked_verdicts;
};

/* config.c: each builds one whole message in `buffer` and returns its length. */
size_t nq_config_put_bind(char buffer[NQ_CONFIG_BYTES_MAX], const struct nq_config *config);
/* The same for a queue that is bound. */
size_t nq_config_put_change(char buffer[NQ_CONFIG_BYTES_MAX], const struct nq_config *config, uint32_t sequence);
size_t nq_config_put_stop(char buffer[NQ_CONFIG_BYTES_MAX], uint16_t queue);
/* Changes nothing: all that matters is its acknowledgement. */
size_t nq_config_put_pause(char buffer[NQ_CONFIG_BYTES_MAX], uint16_t queue, uint32_t maxlen);
int nq_config_validate(const struct nq_config *config);

/* open.c */

/* As many as a burst at once; more only for a caller who holds packets, so that thousands of queues stay small. */
void nq_verdicts_prepare(struct nq_queue *queue, unsigned int count);

/* queue.c: sends to the kernel; 0 or a negative errno. */
int nq_send(const struct nq_queue *queue, const void *message, size_t bytes);

/* ledger.c */

/* From now on what the kernel holds is ours to account for, and nothing before. */
void nq_ledger_begin(struct nq_queue *queue);

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

/* Accepts every packet that waits, up to this id. */
void nq_verdict_release(struct nq_verdict *verdict, uint16_t queue, uint32_t id);

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
