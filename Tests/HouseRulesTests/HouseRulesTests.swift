import Foundation
import Testing

@Suite("House rules: sources and pages") struct HouseRulesTests {
    static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    /// All sources, read once for all rules.
    static let all = files(below: ["Sources", "Tests", "Clients/Sources", "Clients/Tests"])

    static func files(below folders: [String]) -> [SourceFile] {
        folders.flatMap { folder -> [SourceFile] in
            let base = root.appending(path: folder)
            let names = FileManager.default.enumerator(atPath: base.path)?.compactMap { $0 as? String } ?? []
            return names.filter { $0.hasSuffix(".swift") }.sorted().compactMap { name in
                (try? String(contentsOf: base.appending(path: name), encoding: .utf8)).map {
                    SourceFile(path: "\(folder)/\(name)", text: $0)
                }
            }
        }
    }

    @Test("the sources are found: this test is not green for want of anything to read")
    func found() {
        let files = HouseRulesTests.all
        #expect(files.count > 20)
        #expect(files.contains { $0.path == "Tests/HouseRulesTests/HouseRulesTests.swift" })
        for module in ["Model", "Quotas", "Placement", "TidecastMessaging"] {
            #expect(files.contains { $0.module == module && !$0.isTest }, "\(module)")
        }
        for module in ["ModelTests", "TidecastMessagingTests"] {
            #expect(files.contains { $0.module == module && $0.isTest }, "\(module)")
        }
    }

    /// Code cites the rules of docs/protocol.md and docs/push-rules.md by name: `rule:` and the rule's name.
    @Test("each rule of the protocol is cited, and each that is cited is there")
    func protocolRules() throws {
        let pages = ["docs/protocol.md", "docs/push-rules.md"].compactMap(HouseRulesTests.text)
        let names = pages.flatMap { $0.split(separator: "\n") }.filter { $0.hasPrefix("### ") }
            .map { String($0.dropFirst(4)) }
        #expect(names.count > 30 && Set(names).count == names.count)
        var cited: Set<String> = []
        for file in HouseRulesTests.all {
            for match in file.lines.joined(separator: "\n").matches(of: /rule: ([a-z]+(?:-[a-z]+)+)/) {
                let name = String(match.1)
                cited.insert(name)
                #expect(names.contains(name), "\(file.path) cites \(name)")
            }
        }
        for name in names where !cited.contains(name) { Issue.record("nothing cites \(name)") }
    }

    /// Each hop of a walk in docs/architecture.md names files, and in parentheses the declarations in them.
    @Test("each file and each name of the walks is there")
    func walks() throws {
        let page = try String(
            contentsOf: HouseRulesTests.root.appending(path: "docs/architecture.md"), encoding: .utf8)
        let walks = try #require(page.range(of: "\n## Walks\n")).upperBound
        var names = 0
        for match in page[walks...].matches(of: /`([\w\/+.\-]+\.(?:swift|py|md))`(?: \(([^)]*)\))?/) {
            let named = String(match.1)
            guard let text = HouseRulesTests.text(named) ?? HouseRulesTests.text("Sources/\(named)") else {
                Issue.record("there is no \(named)")
                continue
            }
            let declared = Page.names(in: match.2 ?? "")
            names += declared.count
            let missing = Page.undeclared(declared, in: text)
            #expect(missing.isEmpty, "\(named) has no \(missing)")
        }
        #expect(names > 150)
    }

    /// Names in backticks, in parentheses directly after a file, are declarations in that file.
    @Test("each name that a page gives after a file is in that file")
    func namesAfterFiles() throws {
        var names = 0
        for (page, text) in try HouseRulesTests.pages() {
            for match in text.matches(of: /`([\w\/+.\-]+\.(?:swift|py))` \(([^)]*)\)/) {
                let file = ["", "Sources/", "Tests/"].lazy
                    .compactMap { HouseRulesTests.text($0 + match.1) }.first
                let declared = Page.names(in: match.2)
                names += declared.count
                let missing = Page.undeclared(declared, in: file ?? "")
                #expect(missing.isEmpty, "docs/\(page) names \(missing), not in \(match.1)")
            }
        }
        #expect(names > 300)
    }

    static func text(_ path: String) -> String? {
        try? String(contentsOf: root.appending(path: path), encoding: .utf8)
    }

    /// The pages in docs/, without the decisions, which describe their day.
    static func pages() throws -> [(name: String, text: String)] {
        let docs = root.appending(path: "docs").path
        return try FileManager.default.contentsOfDirectory(atPath: docs).filter { $0.hasSuffix(".md") }
            .sorted()
            .map { ($0, try #require(text("docs/" + $0))) }
    }

    /// A path in backticks, from the repository's root or from `Sources`. Decisions may name what is gone.
    @Test("each file that a page names is there")
    func namedFiles() throws {
        var count = 0
        for (page, text) in try HouseRulesTests.pages() {
            for match in text.matches(of: /`([\w.+\-]+(?:\/[\w.+\-]+)+\.(?:swift|js|py|sh|c|yaml))`/) {
                let name = String(match.1)
                count += 1
                let isThere = ["", "Sources/", "Tests/", "docs/"].contains {
                    FileManager.default.fileExists(
                        atPath: HouseRulesTests.root.appending(path: $0 + name).path)
                }
                #expect(isThere, "docs/\(page) names \(name)")
            }
        }
        #expect(count > 300)
    }

    @Test("no source breaks a rule of the house", arguments: Rule.all.map(\.name))
    func rules(name: String) {
        let files = HouseRulesTests.all
        for rule in Rule.all where rule.name == name {
            for file in files {
                for violation in rule.violations(in: file) { Issue.record("\(violation.description)") }
            }
        }
    }
}
