/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rules that queue packets, as the tools that made them print them.
 *
 * nft prints its own rules, "queue num 0-3 bypass,fanout" or since 1.0 "queue flags bypass to 0-3", and iptables-save
 * those of iptables, of which there may be two kinds at once. A rule whose queue is computed may mean any.
 */
#include "rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RULES_WORDS_MAX 128

/* Cuts a line into words; what stands in quotes is text and no word. */
static unsigned int rules_split(char *line, char *words[RULES_WORDS_MAX])
{
	unsigned int count = 0;

	for (char *at = line; *at && count < RULES_WORDS_MAX;) {
		at += strspn(at, " \t\n");
		if (*at == '"') {
			at += strcspn(at + 1, "\"") + 1;
			at += *at == '"';
			continue;
		}
		if (!*at)
			break;
		words[count++] = at;
		at += strcspn(at, " \t\n");
		if (*at)
			*at++ = '\0';
	}
	return count;
}

/* "7", "0-3" or "0:3"; anything else is computed from the packet. */
static void rules_read_range(const char *word, struct rules_queue *queue)
{
	char *end;
	unsigned long first = strtoul(word, &end, 10);
	unsigned long last = first;

	if (end != word && (*end == '-' || *end == ':'))
		last = strtoul(end + 1, &end, 10);
	if (end == word || *end || first > last || last > UINT16_MAX) {
		first = 0;
		last = UINT16_MAX;
	}
	queue->first = (uint16_t)first;
	queue->last = (uint16_t)last;
}

static bool rules_parse_iptables(char *words[], unsigned int count, struct rules_queue *queue)
{
	bool found = false;

	for (unsigned int i = 0; i + 1 < count; i++)
		found |= strcmp(words[i], "-j") == 0 && strcmp(words[i + 1], "NFQUEUE") == 0;
	for (unsigned int i = 0; found && i < count; i++) {
		if (strcmp(words[i], "--queue-bypass") == 0)
			queue->bypass = true;
		else if (i + 1 < count &&
			 (strcmp(words[i], "--queue-num") == 0 || strcmp(words[i], "--queue-balance") == 0))
			rules_read_range(words[i + 1], queue);
	}
	return found;
}

static bool rules_has_flag(const char *flags, const char *flag)
{
	size_t length = strlen(flag);

	for (const char *at = flags; *at; at += strcspn(at, ","), at += *at == ',')
		if (strncmp(at, flag, length) == 0 && (at[length] == ',' || !at[length]))
			return true;
	return false;
}

/* The statement is the last of its rule, but for a comment. */
static bool rules_parse_nft(char *words[], unsigned int count, struct rules_queue *queue)
{
	unsigned int at = 0;

	while (at < count && strcmp(words[at], "queue") != 0)
		at++;
	if (at == count)
		return false;
	for (unsigned int i = at + 1; i < count && strcmp(words[i], "comment") != 0; i++) {
		queue->bypass |= rules_has_flag(words[i], "bypass");
		if (i + 1 < count && (strcmp(words[i], "num") == 0 || strcmp(words[i], "to") == 0))
			rules_read_range(words[i + 1], queue);
	}
	return true;
}

bool rules_parse(const char *line, struct rules_queue *queue)
{
	char copy[RULES_LINE_BYTES];
	char *words[RULES_WORDS_MAX];

	snprintf(copy, sizeof(copy), "%s", line);
	*queue = (struct rules_queue){ 0 };
	unsigned int count = rules_split(copy, words);
	if (count && words[0][0] == '-')
		return rules_parse_iptables(words, count, queue);
	return count && words[0][0] != '#' && rules_parse_nft(words, count, queue);
}

/* Looks through what a tool prints; nothing if it is not there. */
static enum rules_finding rules_look(const char *tool, uint16_t first, uint16_t last, char line[RULES_LINE_BYTES])
{
	enum rules_finding finding = RULES_NONE;
	char command[256];
	struct rules_queue queue;

	snprintf(command, sizeof(command),
		 "PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin; %s 2>/dev/null </dev/null", tool);
	FILE *output = popen(command, "re"); /* NOLINT(cert-env33-c): a fixed text with a PATH of its own */
	if (!output)
		return RULES_NONE;
	while (fgets(line, RULES_LINE_BYTES, output)) {
		if (!rules_parse(line, &queue) || queue.last < first || queue.first > last)
			continue;
		finding = queue.bypass ? RULES_BYPASS : RULES_DROP;
		if (finding == RULES_DROP)
			break;
	}
	pclose(output);
	return finding;
}

static void rules_trim(char *line)
{
	size_t indented = strspn(line, " \t");

	line[strcspn(line, "\n")] = '\0';
	memmove(line, line + indented, strlen(line + indented) + 1);
}

enum rules_finding rules_find(uint16_t first, uint16_t last, char line[RULES_LINE_BYTES])
{
	static const char *const tools[] = { "nft --stateless list ruleset", "iptables-nft-save", "ip6tables-nft-save",
					     "iptables-legacy-save", "ip6tables-legacy-save" };
	enum rules_finding finding = RULES_NONE;

	line[0] = '\0'; /* no tool may print any */
	for (size_t i = 0; i < sizeof(tools) / sizeof(tools[0]) && finding != RULES_DROP; i++) {
		enum rules_finding found = rules_look(tools[i], first, last, line);
		if (found != RULES_NONE)
			finding = found;
	}
	rules_trim(line);
	return finding;
}
