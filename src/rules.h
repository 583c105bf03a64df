/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rules that queue packets: do they have "bypass", without which a queue that nobody has bound drops everything? */
#ifndef RULES_H
#define RULES_H

#include <stdbool.h>
#include <stdint.h>

struct rules_queue {
	uint16_t first;
	uint16_t last;
	bool bypass;
};

/* Reads a line of `nft list ruleset` or of iptables-save. Returns whether it queues packets. */
bool rules_parse(const char *line, struct rules_queue *queue);

enum rules_finding {
	RULES_NONE,   /* no rule names one of the queues, or none can be seen: there are no tools, or no permission */
	RULES_BYPASS, /* all that do have it */
	RULES_DROP    /* one does not: `line` is it */
};

#define RULES_LINE_BYTES 512

/* Looks at the rules of this network namespace. Runs nft and iptables-save, which takes some milliseconds each. */
enum rules_finding rules_find(uint16_t first, uint16_t last, char line[RULES_LINE_BYTES]);

#endif
