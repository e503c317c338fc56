// The MultiLock of Redisson, which runs in a JVM.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
	"github.com/leasewheel/leasewheel/internal/testredis"
)

// redisson is the candidate that runs in a JVM.
const redisson = "Redisson MultiLock"

// measureRedisson measures the MultiLock of Redisson on a server of its own. It returns
// an error if Java or Maven is missing.
func measureRedisson(ctx context.Context, window time.Duration) (bench.Values, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return nil, errors.New("unknown path of the Java sources")
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

// parseBatches reads lines with a number of members, a median in µs and a count.
func parseBatches(text string) (bench.Values, error) {
	times := bench.Values{}
	for line := range strings.Lines(text) {
		var n, count int
		var median float64
		if _, err := fmt.Sscan(line, &n, &median, &count); err != nil {
			return nil, fmt.Errorf("unexpected line %q: %w", line, err)
		}
		times[fmt.Sprint(n)] = median / 1000
	}
	return times, nil
}
