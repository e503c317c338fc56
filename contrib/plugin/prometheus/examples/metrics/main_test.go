package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheMetricsAreServed(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, []string{"-listen", "localhost:0"}, write) }()
	line, err := bufio.NewReader(read).ReadString('\n')
	require.NoError(t, err)
	url := strings.TrimSpace(strings.TrimPrefix(line, "metrics at "))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	get := func() string {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if !assert.NoError(t, err) {
			return ""
		}
		response, err := client.Do(request)
		if !assert.NoError(t, err) {
			return ""
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		assert.NoError(t, err)
		return string(body)
	}
	for _, series := range []string{
		`leasewheel_lock_hold_duration_seconds_count{end="unlocked",kind="mutex",name="orders",store="memory"}`,
		`leasewheel_lock_acquire_duration_seconds_count{error_type="",kind="mutex",name="reports",outcome="wait_limit",store="memory"}`,
	} {
		assert.Eventually(t, func() bool { return strings.Contains(get(), series) }, 25*time.Second, 10*time.Millisecond, series)
	}
	cancel()
	require.NoError(t, <-ended)
}

func TestABadAddressIsAnError(t *testing.T) {
	require.Error(t, run(t.Context(), []string{"-redis", "nowhere"}, io.Discard))
	require.Error(t, run(t.Context(), []string{"-listen", "localhost:nowhere"}, io.Discard))
}
