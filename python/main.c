// SPDX-License-Identifier: Apache-2.0
int plimsoll_command(int argc, char** argv);

int main(int argc, char** argv) { return plimsoll_command(argc, argv); }
