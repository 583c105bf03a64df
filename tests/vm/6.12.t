#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck source-path=SCRIPTDIR source=boot.sh
source "$(dirname "${BASH_SOURCE[0]}")/boot.sh"
