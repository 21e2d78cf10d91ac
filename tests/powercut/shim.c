/* Preloaded into every process under test: each sync is reported to the recorder, which answers when it has noted it.
 * The recorder is handed the descriptor itself: it may not look into processes that forbid their inspection, unless it is root.
 *
 * POWERCUT_SOCKET names the recorder's socket. With POWERCUT_MODEL the disk is a model: the sync itself is left out, and
 * the recorder reads what it covers before the process goes on. Without it the sync is done first, on a real file system.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void report(int descriptor) {
    const char *path = getenv("POWERCUT_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char byte = '.';
    struct iovec content = {.iov_base = &byte, .iov_len = 1};
    union { struct cmsghdr header; char space[CMSG_SPACE(sizeof(int))]; } control = {0};
    struct msghdr message = {
        .msg_iov = &content, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.space};
    if (path == NULL || strlen(path) >= sizeof address.sun_path) return;
    strcpy(address.sun_path, path);
    int link = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (link < 0) return;
    if (connect(link, (struct sockaddr *)&address, sizeof address) == 0) {
        control.header = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(&control.header), &descriptor, sizeof descriptor);
        if (sendmsg(link, &message, 0) == 1 && read(link, &byte, 1) < 0) perror("powercut");
    }
    close(link);
}

static int synced(const char *name, int descriptor) {
    if (getenv("POWERCUT_MODEL") == NULL) {
        int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
        if (real(descriptor) != 0) return -1;
    }
    report(descriptor);
    return 0;
}

int fsync(int descriptor) { return synced("fsync", descriptor); }
int fdatasync(int descriptor) { return synced("fdatasync", descriptor); }
