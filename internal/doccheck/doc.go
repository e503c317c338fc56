// Package doccheck contains only tests. They check the documents and the doc comments of the
// module: links, names, snippets, figures and the table of common mistakes.
package doccheck
