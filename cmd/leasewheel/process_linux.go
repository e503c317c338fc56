// What Linux has for the process of a command.

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// endWithParent makes the kernel send a signal to the command when this process ends. It is
// for the case that the guard is killed as well.
func endWithParent(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }

// adoptOrphans makes this process the parent of the descendants whose parent ends. It then finds and
// reaps them, also in a container without an init process.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// descendants returns the descendants of a process that belong to a session, without some of its children and what is below these. The kernel lists all children of a process if none of
// them is reaped meanwhile, so the list of the children of this process is complete.
func descendants(pid, session int, except []int) []int {
	if own, err := os.Readlink("/proc/self"); err != nil || own != strconv.Itoa(os.Getpid()) {
		return nil // /proc is that of another namespace, or is missing
	}
	return appendDescendants(nil, pid, session, except)
}

func appendDescendants(found []int, pid, session int, except []int) []int {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		text, _ := os.ReadFile(list) // fails if the thread has ended
		for _, field := range strings.Fields(string(text)) {
			child, err := strconv.Atoi(field)
			if err != nil || slices.Contains(except, child) {
				continue
			}
			if of, err := unix.Getsid(child); err == nil && of == session {
				found = appendDescendants(append(found, child), child, session, except)
			}
		}
	}
	return found
}

// programPath returns the path of this program, even if its file was replaced.
func programPath() (string, error) { return "/proc/self/exe", nil }
