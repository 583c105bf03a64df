/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tracing processor: prints a line a packet on stdout, and lets it go on as it came.
 *
 * Interface names come from libnfnetlink, which keeps a table of them and learns of changes over rtnetlink. Printing
 * takes locks and may block: this processor is for looking, not for measuring.
 */
#include <errno.h>
#include <libnfnetlink/libnfnetlink.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <poll.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>

#include "privilege.h"
#include "processor.h"

struct trace {
	uint16_t queue;
	struct nlif_handle *interfaces;
};

static void trace_close(void *context)
{
	struct trace *trace = context;

	if (trace->interfaces)
		nlif_close(trace->interfaces);
	free(trace);
}

static int trace_open(uint16_t queue, void **context)
{
	struct trace *trace = calloc(1, sizeof(*trace));

	if (!trace)
		return -ENOMEM;
	trace->queue = queue;
	trace->interfaces = nlif_open();
	if (!trace->interfaces || nlif_query(trace->interfaces) < 0) {
		int error = errno ? -errno : -EIO;
		trace_close(trace);
		return error;
	}
	*context = trace;
	return 0;
}

static void trace_update_interfaces(const struct trace *trace)
{
	struct pollfd pollfd = { .fd = nlif_fd(trace->interfaces), .events = POLLIN };

	while (poll(&pollfd, 1, 0) > 0)
		if (nlif_catch(trace->interfaces) < 0)
			return;
}

static const char *trace_interface(const struct trace *trace, uint32_t index, char name[IFNAMSIZ])
{
	if (index == 0)
		return "-";
	if (nlif_index2name(trace->interfaces, index, name) < 0)
		snprintf(name, IFNAMSIZ, "if%u", index);
	return name;
}

static const char *trace_hook(uint8_t hook)
{
	static const char *const names[] = { "prerouting", "input", "forward", "output", "postrouting" };

	return hook < sizeof(names) / sizeof(names[0]) ? names[hook] : "?";
}

static const char *trace_protocol(uint16_t ethertype)
{
	switch (ethertype) {
	case ETH_P_IP:
		return "ipv4";
	case ETH_P_IPV6:
		return "ipv6";
	default:
		return "other";
	}
}

static const char *trace_checksum(uint32_t skb_info)
{
	if (skb_info & NFQA_SKB_CSUMNOTREADY)
		return "to-fill-in";
	return skb_info & NFQA_SKB_CSUM_NOTVERIFIED ? "not-verified" : "complete";
}

static void trace_print(const struct trace *trace, const struct nq_packet *packet)
{
	char in[IFNAMSIZ];
	char out[IFNAMSIZ];

	printf("queue %u id %u %s in %s out %s %s", trace->queue, packet->id, trace_hook(packet->hook),
	       trace_interface(trace, packet->in_ifindex, in), trace_interface(trace, packet->out_ifindex, out),
	       trace_protocol(packet->ethertype));
	if (packet->length_bytes)
		printf(" length %u", packet->length_bytes);
	if (packet->length_bytes != packet->payload_bytes)
		printf(" copied %u", packet->payload_bytes);
	if (packet->mark)
		printf(" mark 0x%x", packet->mark);
	printf(" gso %s checksum %s\n", packet->skb_info & NFQA_SKB_GSO ? "yes" : "no",
	       trace_checksum(packet->skb_info));
}

static void trace_process(void *context, struct nq_packet packets[], unsigned int count)
{
	const struct trace *trace = context;

	trace_update_interfaces(trace);
	flockfile(stdout);
	for (unsigned int i = 0; i < count; i++)
		trace_print(trace, &packets[i]);
	fflush(stdout);
	funlockfile(stdout);
}

/* Printing, and news of interfaces. */
static const int trace_calls[] = { SCMP_SYS(write),   SCMP_SYS(futex),	SCMP_SYS(fstat),    SCMP_SYS(newfstatat),
				   SCMP_SYS(recvmsg), SCMP_SYS(poll),	SCMP_SYS(ppoll),    SCMP_SYS(brk),
				   SCMP_SYS(mmap),    SCMP_SYS(munmap), SCMP_SYS(mprotect), PRIVILEGE_END };

const struct processor processor_trace = {
	.name = "trace",
	.process = trace_process,
	.open = trace_open,
	.close = trace_close,
	.calls = trace_calls,
};
