/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * libnq: process packets in user space through Linux NFQUEUE, in bursts.
 *
 * Theory of operation
 *
 *   A netfilter rule (nft "queue num N", iptables "-j NFQUEUE --queue-num N") makes the kernel hold each packet that
 *   it matches and send a copy of it over netlink to the one socket that has bound queue N. The packet waits in the
 *   kernel until that socket answers with a verdict. libnq binds the queue and carries both directions:
 *
 *     kernel hook -> NFQUEUE N -> nq_receive() -> your processor -> nq_reply() -> the kernel goes on
 *                                 one recvmmsg    a burst           one sendmsg
 *
 *   With NQ_F_GSO, which nq_config_init() sets, a packet may be an aggregate of up to 64 KiB (more with BIG TCP) that
 *   the kernel segments after the verdict. That is what makes user space fast: one trip for forty-odd segments. The
 *   length of a packet therefore has nothing to do with the MTU, and its checksums may not be filled in yet.
 *
 * A whole processor
 *
 *     static void drop_odd_marks(void *context, struct nq_packet packets[], unsigned int count)
 *     {
 *             for (unsigned int i = 0; i < count; i++)
 *                     if (packets[i].mark & 1)
 *                             packets[i].verdict = NF_DROP;
 *     }
 *
 *     struct nq_config config;
 *     struct nq_queue *queue;
 *
 *     nq_config_init(&config, 0);
 *     int error = nq_open(&queue, &config);
 *     if (!error)
 *             error = nq_run(queue, drop_odd_marks, NULL);
 *     nq_close(queue);
 *
 * Conventions
 *
 *   Functions that can fail return a value >= 0, or a negative errno and then have changed nothing. The library never
 *   prints, never exits, has no global state, and allocates nothing after nq_open(). Numbers are in host byte order,
 *   lengths in bytes. A queue belongs to one thread; nq_stop(), nq_pause() and the functions that only read may be called
 *   from any thread while the queue is open.
 *
 *   CAP_NET_ADMIN over the network namespace is needed for as long as packets are answered, not only to open.
 */
#ifndef NQ_H
#define NQ_H

/* First: the kernel's headers stand back behind the C library's, but not the other way round. */
#include <netinet/in.h>

#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NQ_VERSION "0.1.0"

/* Bits of nq_config.flags. Any other bit is passed on; a kernel that does not know it refuses the bind. */
#define NQ_F_FAIL_OPEN NFQA_CFG_F_FAIL_OPEN /* an overloaded queue lets packets pass instead of dropping them */
#define NQ_F_GSO       NFQA_CFG_F_GSO	    /* take aggregates whole; without it the kernel segments them first */

/* nq_config.copy_bytes */
#define NQ_COPY_META 0u	    /* no payload: id, mark, interfaces, checksum state */
#define NQ_COPY_FULL 65531u /* all that a netlink attribute can carry */

#define NQ_BURST_MAX	  1024u /* the most messages that one recvmmsg() takes */
#define NQ_BURST_DEFAULT  32u
#define NQ_MAXLEN_DEFAULT 1024u /* as the kernel's own */
#define NQ_MAXLEN_BY_SIZE 0u	/* nq_config.maxlen: NQ_MAXLEN_DEFAULT, or as many as fit into rcvbuf_bytes */
#define NQ_RCVBUF_BY_SIZE 0u	/* nq_config.rcvbuf_bytes: nq_rcvbuf_bytes(maxlen, copy_bytes) */
#define NQ_SPIN_US_MAX	  1000000u

struct nq_queue;

struct nq_config {
	uint16_t queue;	       /* the number in the rule */
	uint32_t flags;	       /* NQ_F_* */
	uint32_t copy_bytes;   /* of each packet's payload: NQ_COPY_META to NQ_COPY_FULL */
	uint32_t maxlen;       /* packets that the kernel may hold; more are dropped, or pass with NQ_F_FAIL_OPEN */
	uint32_t rcvbuf_bytes; /* to ask for; the kernel grants twice as much, or less without CAP_NET_ADMIN (below) */
	unsigned int burst;    /* most packets a receive, 1 to NQ_BURST_MAX */
	uint32_t spin_us;      /* keep asking for packets that long before sleeping; 0 to NQ_SPIN_US_MAX */
};

/*
 * A packet that waits for its verdict.
 *
 * `payload` points into the queue's own buffers and is valid until the next nq_receive(). The kernel gives at most
 * copy_bytes of it: compare payload_bytes with length_bytes.
 */
struct nq_packet {
	uint32_t id;	       /* consecutive from 1 on, per queue; wraps */
	uint32_t verdict;      /* yours: NF_ACCEPT (preset), NF_DROP, NF_REPEAT, NF_QUEUE_NR(n), or NQ_HOLD */
	uint32_t mark;	       /* the packet's; yours if set_mark */
	uint32_t length_bytes; /* the packet's true length from its network header on; 0 = unknown (NQ_COPY_META) */
	uint32_t payload_bytes;
	const uint8_t *payload; /* from the network header on; NULL if there is none */
	uint32_t skb_info;	/* NFQA_SKB_*: checksum still to be filled in, GSO, not verified */
	uint32_t in_ifindex;	/* 0 = none, as on OUTPUT */
	uint32_t out_ifindex;	/* 0 = none, as on INPUT */
	uint16_t ethertype;	/* ETH_P_IP, ETH_P_IPV6 */
	uint8_t hook;		/* NF_INET_FORWARD ... */
	bool set_mark;		/* yours: send `mark` with the verdict */
};

/* Not sent by nq_reply(): the caller keeps a copy of the struct and replies later. Hold no packet for long: rule-set
 * changes may drop what waits, and a flow's packets must be answered in order. */
#define NQ_HOLD UINT32_MAX

/* Decides what becomes of a burst: sets verdict (and mark) of each packet in place. Packets come in the kernel's order
 * and are answered in the order of the array. */
typedef void nq_process_fn(void *context, struct nq_packet packets[], unsigned int count);

/* What happened since nq_open(). */
struct nq_counters {
	uint64_t packets;	    /* received */
	uint64_t bytes;		    /* their true lengths; 0 with NQ_COPY_META, which tells no length */
	uint64_t gso_packets;	    /* aggregates that the kernel has yet to segment */
	uint64_t truncated_packets; /* longer than what was copied */
	uint64_t max_packet_bytes;
	uint64_t receive_calls; /* receives: a system call each, and those of spin_calls beside */
	uint64_t spin_calls;	/* system calls that found nothing while spinning */
	uint64_t spin_receives; /* receives that found something while spinning: no sleep, no wake-up */
	uint64_t send_calls;	/* system calls that sent verdicts */
	uint64_t verdicts;	/* sent */
	uint64_t overruns;	/* times the kernel said ENOBUFS: it had messages and no room in the socket buffer */
	uint64_t lost_ids; /* gaps in the ids: packets that user space never saw. Dropped, or passed if fail-open */
	uint64_t flushed;  /* verdicts answered by ENOENT: the kernel had dropped the packet while it waited */
	uint64_t verdict_errors; /* other refusals: one a verdict, or one a reply if CAP_NET_ADMIN is gone */
	uint64_t malformed;	 /* messages that are not what the kernel sends */
};

/* What the kernel says of a queue, from /proc/net/netfilter/nfnetlink_queue. */
struct nq_status {
	uint32_t portid;       /* of the socket that owns it: not a process id in general */
	uint32_t waiting;      /* packets held, without a verdict yet */
	uint32_t copy_mode;    /* NFQNL_COPY_* in force */
	uint32_t copy_bytes;   /* copy range in force */
	uint32_t dropped;      /* because maxlen were waiting */
	uint32_t user_dropped; /* because the socket buffer was full */
	uint32_t id_sequence;  /* the last id that was given out */
};

/*
 * What became of every packet to which the kernel gave an id since nq_open(), or since nq_adopt() after a crash:
 *
 *   queued = answered + flushed + refused + dropped + passed + waiting + residue
 *
 * Each side is counted by another: `queued` and `waiting` by the queue, `dropped` and `passed` by the kernel's socket,
 * `answered`, `flushed` and `refused` by the verdicts of this library. While packets move the terms are read one after
 * the other; at rest the residue is 0, and anything else is a packet without a fate.
 *
 * A packet that finds `maxlen` packets waiting gets no id: it is dropped (nq_status.dropped), or passes uncounted with
 * NQ_F_FAIL_OPEN.
 */
struct nq_ledger {
	uint64_t queued;
	uint64_t answered; /* verdicts that the kernel took */
	uint64_t flushed;  /* as in nq_counters, and those whose notice found no room */
	uint64_t refused;  /* verdict_errors */
	uint64_t dropped;  /* the socket buffer was full */
	uint64_t passed;   /* the same with NQ_F_FAIL_OPEN: let through unseen */
	uint64_t waiting;
	int64_t residue;
};

/*
 * A queue that changes hands: its socket, which carries the queue, and the account so far.
 *
 * The socket survives execve() without its close-on-exec flag, and travels to another process by SCM_RIGHTS. What the
 * kernel queues meanwhile waits in it. A process that comes after a crash has the socket and the number only, and
 * leaves `is_known` false.
 */
struct nq_handover {
	int socket;
	int status; /* /proc's descriptor, which an unprivileged process cannot open anew; negative if there is none */
	uint16_t queue;
	bool is_known; /* the following are */
	uint32_t last_id;
	uint64_t ids_skipped;
	uint64_t socket_drops;
	uint64_t user_dropped;
	uint64_t answers_lost;
	struct nq_counters counters;
};

struct nq_owner {
	pid_t pid;	  /* 0 = in a process that we may not look at */
	char command[16]; /* as /proc/PID/comm; empty if pid is 0 */
};

/* Fills in the defaults: NQ_F_GSO, full copy, length and buffer by size, NQ_BURST_DEFAULT, no spinning. Never fails. */
void nq_config_init(struct nq_config *config, uint16_t queue);

/*
 * The socket buffer to ask for so that `maxlen` waiting packets fit, in bytes.
 *
 * The kernel charges a message by its true memory, not by its length: up to 131328 bytes for a reassembled packet of
 * 64 KiB, 1280 for a short copy, 832 for none. It grants twice what is asked for, so this is half of the sum.
 */
uint32_t nq_rcvbuf_bytes(uint32_t maxlen, uint32_t copy_bytes);

/* The other way round: how many packets of the largest kind fit into a socket buffer of which `rcvbuf_bytes` were asked
 * for, and granted; at least 1. */
uint32_t nq_maxlen_fitting(uint32_t rcvbuf_bytes, uint32_t copy_bytes);

/*
 * Opens a socket, sizes its buffer, and binds and configures the queue in one acknowledged message: between a bind and
 * a later configuration the kernel would silently drop every packet.
 *
 * On success *queue is owned by the caller, who ends it by nq_close(); on failure *queue is NULL.
 *
 *   -EINVAL           a field of config is out of range; nothing was asked of the kernel
 *   -EBUSY            another socket owns the queue: nq_owner_find() tells whose
 *   -EPERM            no CAP_NET_ADMIN over this network namespace (the kernel's errno is the same as for an owned
 *                     queue; the two are told apart by what /proc says of the queue)
 *   -EPROTONOSUPPORT  the kernel has no nfnetlink_queue
 *   -EOPNOTSUPP       the kernel does not know a bit of flags
 *   -EPROTO           the kernel acknowledged, but /proc shows another copy mode than asked for
 *   -ETIMEDOUT        no acknowledgement within two seconds
 *   -ENOMEM and what socket() or sendmsg() gives
 */
int nq_open(struct nq_queue **queue, const struct nq_config *config);

/*
 * Goes on with a queue that is bound to `handover->socket`, without a gap: config->queue must be its number, and the
 * rest of config takes the place of what was in force, in one message. Packets that already wait keep their form.
 *
 * If the account is not known, the last owner may have read packets that it never answered. They wait for ever, as
 * nobody will see them again: one verdict accepts them all, before the first packet behind them is handed out.
 *
 * On success the queue owns both descriptors of `handover`; on failure the caller keeps them, and *queue is NULL.
 *
 *   -EINVAL    a field of config is out of range
 *   -ENOTSOCK  the descriptor is no netlink socket of netfilter
 *   -ENODEV    the socket has bound no such queue
 *   -EPERM     no CAP_NET_ADMIN (told by the first nq_receive() where /proc cannot be read)
 *   -ENOMEM and what setsockopt() or sendmsg() gives
 *
 * Relies on: the kernel knows a queue's owner by its socket, whoever holds that, and looks at the capability of the
 * sender only.
 */
int nq_adopt(struct nq_queue **queue, const struct nq_config *config, const struct nq_handover *handover);

/* What a successor needs. The descriptors stay the queue's. To be called by the queue's thread, or when there is none;
 * the account is exact in a pause. */
void nq_handover_read(const struct nq_queue *queue, struct nq_handover *handover);

/* Unbinds and frees the queue; NULL is allowed. Packets that wait are dropped by the kernel: to lose none, call
 * nq_stop() and receive and reply until -ESHUTDOWN first. */
void nq_close(struct nq_queue *queue);

/*
 * Waits for packets and takes up to `capacity` of those that are there, at most the configured burst.
 *
 * With spin_us it keeps asking for that long before it sleeps, unless that was in vain the last times: spinning helps
 * where packets come from another CPU, and only takes the CPU from them where they come from this one. A thread under a
 * real-time policy must see to it that it sleeps now and then all the same, or the kernel will.
 *
 * Returns their number; 0 if the call was interrupted, or brought only notices from the kernel (a refused verdict, an
 * overrun), which are counted; -ESHUTDOWN when nq_stop() was called and every packet has been handed out; -ECANCELED
 * likewise after nq_pause(); any other error is final for the queue: -ENODEV if another holder of the socket unbound it.
 *
 * Relies on: netlink delivers in order; recvmmsg() with MSG_WAITFORONE is the one call that takes several messages;
 * nobody but the kernel can send to a netlink socket that is connected to it.
 */
int nq_receive(struct nq_queue *queue, struct nq_packet packets[], unsigned int capacity);

/*
 * Sends the verdicts of packets[0..count-1] in that order, in one system call for up to NQ_BURST_MAX of them; those
 * with verdict NQ_HOLD are left out. A verdict never carries a payload: the kernel's own packet goes on, unchanged.
 *
 * Returns 0, or a negative errno if the system call failed. What the kernel thinks of each verdict arrives through
 * nq_receive() and is counted: verdict_errors, flushed.
 *
 * Relies on: the kernel applies each verdict alone, and runs the rest of the packet's path inside this call.
 */
int nq_reply(struct nq_queue *queue, const struct nq_packet packets[], unsigned int count);

/* Receives, processes and replies until nq_stop() is called (returns 0), nq_pause() is (-ECANCELED), or the queue fails
 * (any other negative errno). */
int nq_run(struct nq_queue *queue, nq_process_fn *process, void *context);

/*
 * Asks for an end without loss, from any thread or from a signal handler; returns 0 or a negative errno at once.
 *
 * From then on the kernel lets new packets pass by the queue (fail-open, then length 0); nq_receive() still hands out those
 * that waited, and then returns -ESHUTDOWN. Packets that the caller holds need their replies before nq_close(). After
 * nq_close() packets pass only if the rule says so (nft "bypass", iptables --queue-bypass); otherwise the kernel drops
 * them.
 */
int nq_stop(struct nq_queue *queue);

/*
 * Asks for a pause in which nothing is in our hands, from any thread; returns 0 or a negative errno at once.
 *
 * nq_receive() hands out what the kernel had sent by then, and then returns -ECANCELED until nq_resume(). The queue
 * stays bound, and the kernel keeps up to `maxlen` packets meanwhile. Replies may be sent at any time.
 */
int nq_pause(struct nq_queue *queue);

/* Ends a pause. To be called by the queue's thread, or when there is none. */
void nq_resume(struct nq_queue *queue);

/* Copies the counters, from any thread. Each is exact; two of them may be a burst apart while the queue is running. */
void nq_counters_read(const struct nq_queue *queue, struct nq_counters *counters);

/* Reads what the kernel says of the open queue. -ENOENT if it does not list it, -EACCES if /proc could not be opened
 * when the queue was. Keeps working after privileges are dropped: the file stays open. */
int nq_status_read(const struct nq_queue *queue, struct nq_status *status);

/* Draws up the account, from any thread; errors as nq_status_read(), and -EAGAIN as long as a queue that was adopted
 * after a crash has seen no packet yet. */
int nq_ledger_read(const struct nq_queue *queue, struct nq_ledger *ledger);

/* The socket, for poll() and its like; owned by the queue. */
int nq_socket(const struct nq_queue *queue);

/* The socket's address, by which /proc names the queue's owner (nq_status.portid); 0 if it cannot be told. */
uint32_t nq_portid(const struct nq_queue *queue);

/* The socket buffer in force, in bytes as the kernel counts (twice what was granted). Less than twice
 * nq_rcvbuf_bytes() means that a full queue overruns the buffer: without CAP_NET_ADMIN in the initial user namespace
 * net.core.rmem_max caps it. */
uint32_t nq_rcvbuf_granted(const struct nq_queue *queue);

/* How many packets the kernel may hold. Less than was asked for if the buffer that was granted, by size, could not hold
 * that many of the smallest. */
uint32_t nq_maxlen_granted(const struct nq_queue *queue);

/*
 * Finds the process that has bound queue number `queue` in this network namespace.
 *
 * Returns 0; -ENOENT if nobody has bound it; -EACCES if /proc/net/netfilter/nfnetlink_queue cannot be read, as without
 * privileges; -EPROTONOSUPPORT if there is no such file, which means no nfnetlink_queue in this kernel.
 * Searches /proc, which takes milliseconds: not for a hot path.
 */
int nq_owner_find(uint16_t queue, struct nq_owner *owner);

#ifdef __cplusplus
}
#endif

#endif
