package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

// redisson is the name of the MultiLock of Redisson, in a JVM.
const redisson = "Redisson MultiLock"

// measureRedisson measures it on a server of its own. The error says so if there is
// no Java or no Maven.
func measureRedisson(ctx context.Context, window time.Duration) (batches, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return nil, fmt.Errorf("where the sources are is not known")
	}
	folder := filepath.Join(filepath.Dir(file), "redisson")
	build := exec.CommandContext(ctx, "mvn", "-q", "-B", "package")
	build.Dir = folder
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("mvn package: %w\n%s", err, out)
	}
	server, err := testredis.Launch()
	if err != nil {
		return nil, err
	}
	defer server.Close()
	target := filepath.Join(folder, "target")
	classes := filepath.Join(target, "classes") + string(os.PathListSeparator) + filepath.Join(target, "lib", "*")
	args := []string{"-cp", classes, "MultiLock", server.Addr(), fmt.Sprint(window.Milliseconds())}
	for _, n := range memberCounts {
		args = append(args, fmt.Sprint(n))
	}
	out, err := exec.CommandContext(ctx, "java", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("java: %w", err)
	}
	return parseBatches(string(out))
}

// parseBatches reads lines of a number of members and a time in µs.
func parseBatches(text string) (batches, error) {
	times := batches{}
	for line := range strings.Lines(text) {
		var n, count int
		var median float64
		if _, err := fmt.Sscan(line, &n, &median, &count); err != nil {
			return nil, fmt.Errorf("what is %q?", line)
		}
		times[n] = median / 1000
	}
	return times, nil
}
