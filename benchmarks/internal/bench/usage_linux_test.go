package bench

import (
	"bufio"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestChildrenCPU(t *testing.T) {
	const busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; "
	for name, script := range map[string]string{
		"a child":                       busy + "echo done; read line",
		"a child of it":                 "sh -c '" + busy + "echo done; read line'; :",
		"a child of it that has exited": "sh -c '" + busy + ":'; echo done; read line",
	} {
		t.Run(name, func(t *testing.T) {
			require.Zero(t, ChildrenCPU())
			cmd := exec.Command("sh", "-c", script)
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			_, err = bufio.NewReader(out).ReadString('\n')
			require.NoError(t, err)
			assert.Positive(t, ChildrenCPU())
			require.NoError(t, in.Close())
			_ = cmd.Wait() // read fails at the end of its input
			assert.Zero(t, ChildrenCPU(), "no child is left")
		})
	}
}
