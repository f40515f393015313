// Prints what the suite itself makes of its results: one JSON object per line for each test that a proxy is to be
// measured by. Arguments: the module with the verdicts, the module with the tests, the results.
import fs from 'fs'
import { pathToFileURL } from 'url'

const [verdicts, index, results] = process.argv.slice(2)
const { determineTestResult } = await import(pathToFileURL(verdicts))
const { default: suites } = await import(pathToFileURL(index))
const found = JSON.parse(fs.readFileSync(results))
const names = { '✅': 'passed', Y: 'passed', N: 'no', '-': 'not run', '🔹': 'setup failed', '⁉️': 'harness failed', '⚪️': 'a test it depends on failed', '↻': 'sent twice' }
for (const suite of suites) {
  for (const test of suite.tests) {
    if (test.browser_only) continue
    const symbol = determineTestResult(suites, test.id, found)[2]
    const verdict = names[symbol] || 'failed'
    const message = Array.isArray(found[test.id]) ? found[test.id].join(': ') : ''
    console.log(JSON.stringify({ suite: suite.id, id: test.id, name: test.name, kind: test.kind || 'required', verdict, passed: verdict === 'passed', message }))
  }
}
