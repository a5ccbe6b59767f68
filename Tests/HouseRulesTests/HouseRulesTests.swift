import Foundation
import Testing

/// One place that breaks a rule, with what to do instead.
struct Finding: Equatable, CustomStringConvertible {
    var file: String
    var line: Int
    var advice: String
    var description: String { "\(file):\(line): \(advice)" }
}

/// The rules of the house, on one file's text.
enum HouseRules {
    static let core: Set<String> = [
        "Model", "HTTPMessages", "Journal", "Quotas", "Placement", "Partitions", "Routing", "Simulator",
    ]
    static let fileLinesMax = 400
    static let lineColumnsMax = 110

    static func check(_ text: String, file: String, module: String) -> [Finding] {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        var findings: [Finding] = []
        if lines.count > fileLinesMax {
            findings.append(
                Finding(
                    file: file, line: lines.count,
                    advice: "over \(fileLinesMax) lines: is there a second concept in it?"))
        }
        for (number, line) in lines.enumerated() {
            let former = number > 0 ? lines[number - 1] : ""
            for advice in check(line, former: former, isCore: core.contains(module)) {
                findings.append(Finding(file: file, line: number + 1, advice: advice))
            }
        }
        return findings
    }

    private static func check(_ line: String, former: String, isCore: Bool) -> [String] {
        var advice: [String] = []
        let code = line.components(separatedBy: "//")[0]
        // A text that stands alone on its line may be longer.
        let isText = line.drop { $0 == " " }.hasPrefix("\"")
        if line.count > lineColumnsMax, !isText { advice.append("over \(lineColumnsMax) columns") }
        for mark in ["TO" + "DO", "FIX" + "ME", "XX" + "X"] where line.contains(mark) {
            advice.append("do it, or take the mark out")
        }
        for word in ["@unchecked Sendable", "nonisolated(unsafe)", "try!", "as!"]
        where code.contains(word) && !line.contains("//") && !former.contains("//") {
            advice.append("\(word) needs a comment that says why it is safe")
        }
        guard isCore else { return advice }
        for module in ["Foundation", "Glibc", "NIO", "Dispatch", "Synchronization"]
        where code.hasPrefix("import \(module)") {
            advice.append("the core does no I/O: hand in what it needs instead of importing \(module)")
        }
        for clock in ["clock_gettime", "ContinuousClock", "DispatchTime", "Date("] where code.contains(clock)
        {
            advice.append("the core asks no clock: time is an argument")
        }
        if code.contains("SystemRandomNumberGenerator")
            || (code.contains(".random(in:") && !code.contains("using:"))
        {
            advice.append("the core makes no randomness: a generator is handed in")
        }
        if code.contains("Task {") || code.contains("Task.detached") {
            advice.append("the core starts no tasks: return an effect")
        }
        return advice
    }
}

@Suite("The rules of the house")
struct HouseRulesTests {
    @Test("hold in every source file")
    func sources() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let sources = root.appendingPathComponent("Sources")
        var files = 0
        var findings: [Finding] = []
        let walk = FileManager.default.enumerator(atPath: sources.path)
        while let path = walk?.nextObject() as? String {
            guard path.hasSuffix(".swift") else { continue }
            files += 1
            let text = try String(contentsOf: sources.appendingPathComponent(path), encoding: .utf8)
            findings += HouseRules.check(text, file: path, module: String(path.split(separator: "/")[0]))
        }
        #expect(files > 50)
        #expect(findings.isEmpty, "\(findings.map(\.description).joined(separator: "\n"))")
    }

    /// Each rule is seen failing once, and its good twin passing.
    @Test(
        "see what breaks them",
        arguments: [
            ("import Foundation", "import Model"), ("import NIOCore", "import Journal"),
            ("let now = Date()", "let now: WallTime"), ("clock_gettime(0, &time)", "clock(now)"),
            ("let n = Int.random(in: 0..<5)", "let n = Int.random(in: 0..<5, using: &generator)"),
            ("var g = SystemRandomNumberGenerator()", "var g = SeededGenerator(seed: 1)"),
            ("Task { work() }", "effects.append(.work)"), ("let x = try! make()", "let x = try make()"),
            ("final class A: @unchecked Sendable {", "final class A: @unchecked Sendable { // immutable"),
            ("let a = 1 // TO" + "DO later", "let a = 1 // later"),
            (String(repeating: "x", count: 111), String(repeating: "x", count: 110)),
        ])
    func planted(bad: String, good: String) {
        #expect(!HouseRules.check(bad, file: "f", module: "Partitions").isEmpty)
        #expect(HouseRules.check(good, file: "f", module: "Partitions").isEmpty)
    }

    @Test("see a file that is too long")
    func length() {
        let text = String(repeating: "let a = 1\n", count: HouseRules.fileLinesMax)
        #expect(!HouseRules.check(text, file: "f", module: "Node").isEmpty)
    }
}
