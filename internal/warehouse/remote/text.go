package remote

import (
	"fmt"
	"slices"
	"strings"
)

// mostLines is how many lines of a text are shown.
const mostLines = 24

// compareText shows the lines that differ between two texts that mean not the same.
func compareText(have, want string) []Difference {
	if essence(have) == essence(want) {
		return nil
	}
	d := Difference{What: "text", Have: "another", Want: "as below"}
	if strings.TrimSpace(have) == "" {
		d.Have = ""
	}
	d.Lines = diff(lines(have), lines(want))
	if n := len(d.Lines) - mostLines; n > 0 {
		d.Lines = append(d.Lines[:mostLines], fmt.Sprintf("... and %d more lines", n))
	}
	return []Difference{d}
}

// lines are those that say something, with single blanks, without the BEGIN and
// END around a procedure.
func lines(sql string) []string {
	var out []string
	for line := range strings.Lines(sql) {
		line = strings.Join(strings.Fields(line), " ")
		if line != "" && !strings.HasPrefix(line, "--") {
			out = append(out, line)
		}
	}
	if n := len(out); n > 1 && strings.EqualFold(out[0], "BEGIN") && strings.EqualFold(strings.TrimSuffix(out[n-1], ";"), "END") {
		out = out[1 : n-1]
	}
	return out
}

// diff returns the lines that are not part of the longest common subsequence,
// marked with "- " and "+ ". Texts of ours have at most some 200 lines.
func diff(have, want []string) []string {
	longest := make([][]int, len(have)+1)
	for i := range longest {
		longest[i] = make([]int, len(want)+1)
	}
	for i, h := range slices.Backward(have) {
		for j, w := range slices.Backward(want) {
			if h == w {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	var out []string
	i, j := 0, 0
	for i < len(have) || j < len(want) {
		switch {
		case i < len(have) && j < len(want) && have[i] == want[j]:
			i, j = i+1, j+1
		case j == len(want) || i < len(have) && longest[i+1][j] >= longest[i][j+1]:
			out = append(out, "- "+have[i])
			i++
		default:
			out = append(out, "+ "+want[j])
			j++
		}
	}
	return out
}
