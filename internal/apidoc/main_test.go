package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWrite(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"a/a.go": "// Package a is small.\npackage a\n\n" +
			"// T has [T.F], [Max] and [T.Do]; see [example.com/m/a/b], [io.EOF] and the [guide].\n//\n// [guide]: https://github.com/o/m/blob/main/docs/GUIDE.md#start\n" +
			"type T[V any] struct {\n\tF V // is < 1\n\n\thidden int\n}\n\n" +
			"// Do does.\nfunc (t *T[V]) Do() { panic(1) }\n\n// Max is the most.\nconst Max = 1\n",
		"a/a_test.go":     "package a_test\n\nfunc ExampleT() {\n\t_ = 1 // one\n}\n",
		"a/b/b.go":        "// Package b is [example.com/m/a.T]\npackage b\n",
		"a/internal/c.go": "package c\n",
		"cmd/d/main.go":   "package main\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o777))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o666))
	}
	require.NoError(t, write("example.com/m", "out"))

	pages, err := filepath.Glob("out/*")
	require.NoError(t, err)
	assert.Equal(t, []string{"out/README.md", "out/a-b.md", "out/a.md"}, pages)
	for page, parts := range map[string][]string{
		"README.md": {"| [a](a.md) | Package a is small. |"},
		"a-b.md":    {`import "example.com/m/a/b"`, "is [example.com/m/a.T](a.md#T)"},
		"a.md": {
			"## type T {#T data-toc-label=T}", `<a id="T.F"></a>`, "\tF V // is < 1\n\t// contains filtered or unexported fields",
			"T has [T.F](#T.F), [Max](#Max) and [T.Do](#T.Do); see [example.com/m/a/b](a-b.md), [io.EOF](https://pkg.go.dev/io#EOF) and the [guide](../docs/GUIDE.md#start).",
			"**Example**\n", "_ = 1 // one", `### func (\*T[V]) Do {#T.Do data-toc-label=Do}`, "```go\nfunc (t *T[V]) Do()\n```", `<a id="Max"></a>`,
		},
	} {
		text, err := os.ReadFile(filepath.Join("out", page))
		require.NoError(t, err)
		for _, part := range parts {
			assert.Contains(t, string(text), part)
		}
	}
}
