/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the programs here share. Each hands any bytes to one reader of ours, and aborts if what that makes of them breaks
 * a promise.
 *
 * Built by clang with FUZZER defined, a program is driven by libFuzzer (make fuzz). Built like any other test it replays
 * its corpus, a file at a time, and prints TAP.
 */
#ifndef REPLAY_H
#define REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* What must hold whatever the bytes are. */
#define PROMISE(condition) promise(condition, __FILE__, __LINE__, #condition)

static inline void promise(bool holds, const char *file, int line, const char *condition)
{
	if (holds)
		return;
	fprintf(stderr, "%s:%d: broken: %s\n", file, line, condition);
	abort();
}

#ifndef FUZZER

#include <dirent.h>
#include <string.h>

static inline bool replay_file(const char *directory, const char *name)
{
	static uint8_t data[1 << 20];
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	FILE *file = fopen(path, "re");
	if (!file)
		return false;
	size_t bytes = fread(data, 1, sizeof(data), file);
	fclose(file);
	/* A copy of just this size: a sanitizer then sees every step beyond it. */
	uint8_t *exact = malloc(bytes ? bytes : 1);
	if (!exact)
		return false;
	memcpy(exact, data, bytes);
	LLVMFuzzerTestOneInput(exact, bytes);
	free(exact);
	return true;
}

static inline int replay(const char *directory)
{
	DIR *corpus = opendir(directory);
	unsigned int read = 0;
	unsigned int failed = 0;

	if (!corpus) {
		printf("Bail out! %s: cannot be read: run this from the top of the source\n", directory);
		return 1;
	}
	for (struct dirent *entry; (entry = readdir(corpus));) {
		if (entry->d_name[0] == '.')
			continue;
		read++;
		failed += !replay_file(directory, entry->d_name);
	}
	closedir(corpus);
	printf("%sok 1 - %s: %u files are taken without harm\n1..1\n", read && !failed ? "" : "not ", directory, read);
	return read && !failed ? 0 : 1;
}

#define REPLAY(directory)                                                                                              \
	int main(void)                                                                                                 \
	{                                                                                                              \
		return replay(directory);                                                                              \
	}
#else
#define REPLAY(directory)
#endif

#endif
