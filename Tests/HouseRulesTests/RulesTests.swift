import Testing

/// Each rule must fail on planted text, and stay silent on text that only looks like a violation.
@Suite("House rules: each rule") struct RulesTests {
    static func lines(_ rule: Rule, _ path: String, _ text: String) -> [Int] {
        rule.violations(in: SourceFile(path: path, text: text)).map(\.line)
    }

    @Test(
        "the core imports no I/O",
        arguments: [
            "import Foundation", "import Glibc", "import NIOCore", "@preconcurrency import NIOPosix",
            "import Dispatch",
            "import Synchronization", "import struct Foundation.Date", "public import Foundation",
        ])
    func imports(line: String) {
        let text = "import Model\n\(line)\n"
        #expect(RulesTests.lines(.imports, "Sources/Quotas/A.swift", text) == [2])
        #expect(RulesTests.lines(.imports, "Sources/Edge/A.swift", text) == [])
        #expect(RulesTests.lines(.imports, "Tests/Core/QuotasTests/A.swift", text) == [])
        let isLock = line == "import Synchronization"
        #expect(RulesTests.lines(.imports, "Sources/FCMAPI/A.swift", text) == (isLock ? [] : [2]))
    }

    @Test("a function that computes may be imported by its name")
    func pureFunctions() {
        let text = "import func Glibc.inet_pton\nimport func Glibc.read\n"
        #expect(RulesTests.lines(.imports, "Sources/Quotas/A.swift", text) == [2])
    }

    /// For each rule, a text that breaks this rule and no other. A new rule must come with a text.
    static let planted: [String: String] = [
        "imports of the core": "import Foundation",
        "libcrypto only where it is needed": "import COpenSSL",
        "clocks": "let now = clock_gettime(CLOCK_MONOTONIC, &time)",
        "tasks and threads": "let task = Task { work() }",
        "randomness": "var random = SystemRandomNumberGenerator()",
        "length of a file": String(repeating: "let a = 1\n", count: 401),
        "length of a line": String(repeating: "x", count: 111),
        "length of a function": "func a() {\n" + String(repeating: "    b()\n", count: 70) + "}\n",
        "promises that the compiler cannot check": "let a = try! b()",
        "leftover markers": "// FIX" + "ME",
        "plain words in comments": "// Who" + "ever asks waits.",
        "names of tests": "@Test func promises() {}",
        "no function has more than two parameters without a label":
            "func a(_ b: Int, _ c: Int, _ d: Int) {}",
        "length of a sentence in a comment": "//" + String(repeating: " so", count: 31),
        "output that may fail": "print(1)",
    ]

    @Test("every rule is seen failing in every target of the core, and says where and what to do instead")
    func allSeenFailing() {
        #expect(Set(RulesTests.planted.keys) == Set(Rule.all.map(\.name)))
        for (name, text) in RulesTests.planted {
            for module in Rule.core
            where name != Rule.ciphers.name
                || !["RegistrationIDs", "PushMessages", "Credentials", "FCMAPI"].contains(module)
            {
                let file = SourceFile(path: "Sources/\(module)/A.swift", text: text)
                let violations = Rule.all.flatMap { rule in
                    rule.violations(in: file).map { (rule: rule.name, text: $0.description) }
                }
                #expect(violations.map(\.rule) == [name], "in \(module)")
                for violation in violations {
                    #expect(violation.text.hasPrefix("Sources/\(module)/A.swift:"))
                    #expect(violation.text.count > 50, "what to do instead?")
                }
            }
        }
    }

    @Test("what is not an import is none")
    func notImports() {
        let text = "import Model\n// import Foundation\nlet text = \"import Foundation\"\nlet important = 1\n"
        #expect(RulesTests.lines(.imports, "Sources/Model/A.swift", text) == [])
    }

    @Test("ciphers are for registration ids, push messages and FCMAPI")
    func ciphers() {
        #expect(RulesTests.lines(.ciphers, "Sources/Partitions/A.swift", "import COpenSSL") == [1])
        #expect(RulesTests.lines(.ciphers, "Sources/RegistrationIDs/A.swift", "import COpenSSL") == [])
        #expect(RulesTests.lines(.ciphers, "Sources/PushMessages/A.swift", "import COpenSSL") == [])
        #expect(RulesTests.lines(.ciphers, "Sources/FCMAPI/A.swift", "import COpenSSL") == [])
    }

    @Test(
        "no clock is read",
        arguments: [
            "clock_gettime(CLOCK_MONOTONIC, &time)", "let now = DispatchTime.now()", "let now = Date()",
            "let now = ContinuousClock.now", "let now = Date.now",
        ])
    func clocks(line: String) {
        for module in ["Partitions", "Simulator"] {
            #expect(RulesTests.lines(.clocks, "Sources/\(module)/A.swift", "\n\(line)") == [2])
        }
        #expect(RulesTests.lines(.clocks, "Sources/Node/A.swift", line) == [])
    }

    @Test("a name that ends like a clock's is none")
    func notClocks() {
        let text = "let day = expiryDate(3)\n// Date() is forbidden\nvar lastUpdate = 0\n"
        #expect(RulesTests.lines(.clocks, "Sources/Model/A.swift", text) == [])
    }

    @Test(
        "no tasks",
        arguments: [
            "Task { work() }", "Task.detached { }", "async let a = b()", "_ = await x()", "actor A {}",
        ])
    func tasks(line: String) {
        #expect(RulesTests.lines(.tasks, "Sources/Routing/A.swift", line) == [1])
        #expect(RulesTests.lines(.tasks, "Sources/Node/A.swift", line) == [])
        #expect(RulesTests.lines(.tasks, "Sources/Routing/A.swift", "let subTask = 1 // Task {") == [])
    }

    @Test("randomness is seeded, in tests too")
    func randomness() {
        let bad =
            "let a = Int.random(in: 0..<3)\nlet b = list.shuffled()\nvar c = SystemRandomNumberGenerator()\n"
        let good =
            "let a = Int.random(in: 0..<3, using: &random)\nlet b = Int.random(\n    in: 0...1, using: &random)\n"
        for path in ["Sources/Simulator/A.swift", "Tests/Model/ModelTests/A.swift"] {
            #expect(RulesTests.lines(.randomness, path, bad).sorted() == [1, 2, 3])
            #expect(RulesTests.lines(.randomness, path, good) == [])
        }
        #expect(RulesTests.lines(.randomness, "Sources/Node/A.swift", bad) == [])
        let drawn = "RAND_bytes(&salt, 16)\nlet key = try P256Key.generate()\n"
        #expect(RulesTests.lines(.randomness, "Sources/PushMessages/A.swift", drawn).sorted() == [1, 2])
        #expect(RulesTests.lines(.randomness, "Sources/Node/A.swift", drawn) == [])
    }

    @Test("files, lines and functions have a length")
    func lengths() {
        let long = String(repeating: "let a = 1\n", count: 401)
        #expect(RulesTests.lines(.fileLength, "Sources/Edge/A.swift", long) == [401])
        #expect(RulesTests.lines(.fileLength, "Sources/Edge/A.swift", String(long.dropLast(10))) == [])
        #expect(
            RulesTests.lines(.fileLength, "Sources/Edge/A.swift", "// Generated by tools/x\n" + long) == [])
        let wide = String(repeating: "x", count: 111)
        func lines(_ text: String) -> [Int] { RulesTests.lines(.lineLength, "Tests/A/ATests/A.swift", text) }
        #expect(lines("\n\(wide)\n") == [2])
        #expect(lines(String(wide.dropLast())) == [])
        #expect(lines("    \"\(wide)\",") == [])
    }

    @Test("a function of 70 lines passes, one of 71 does not, and braces in texts do not count")
    func functions() {
        func text(_ count: Int) -> String {
            "struct A {\n    func short() {}\n    func long(\n        a: Int\n    ) {\n"
                + String(repeating: "        if b { print(\"}}}\") } // }\n", count: count - 4) + "    }\n}\n"
        }
        #expect(RulesTests.lines(.functionLength, "Sources/Edge/A.swift", text(70)) == [])
        #expect(RulesTests.lines(.functionLength, "Sources/Edge/A.swift", text(71)) == [3])
        #expect(RulesTests.lines(.functionLength, "Tests/Shells/EdgeTests/A.swift", text(71)) == [])
    }

    @Test("the lines of a flat switch over all cases do not count, those of any other switch do")
    func flatSwitches() {
        func text(linesOfCase count: Int, _ end: String = "") -> String {
            let one = "        case .a:\n" + String(repeating: "            b()\n", count: count - 1)
            return "func encode() {\n        switch self {\n" + String(repeating: one, count: 20) + end
                + "        }\n}\n"
        }
        func found(_ text: String) -> [Int] {
            RulesTests.lines(.functionLength, "Sources/Edge/A.swift", text)
        }
        #expect(found(text(linesOfCase: 7)) == [])
        #expect(found(text(linesOfCase: 8)) == [1])
        #expect(found(text(linesOfCase: 7, "        default: b()\n")) == [1])
        let before = String(repeating: "        b()\n", count: 71)
        #expect(
            found(text(linesOfCase: 7).replacing("{\n        switch", with: "{\n\(before)        switch"))
                == [1])
    }

    @Test(
        "a promise to the compiler says why",
        arguments: [
            "final class A: @unchecked Sendable {", "nonisolated(unsafe) var a = 1", "let a = b!",
            "let a = b[0]!.c",
            "let a = try! b()", "let a = b as! C", "f(a!)", "let a = b()!",
        ])
    func unsafe(line: String) {
        #expect(RulesTests.lines(.unsafe, "Sources/Edge/A.swift", "\n\(line)\n") == [2])
        #expect(RulesTests.lines(.unsafe, "Sources/Edge/A.swift", "// Safe, because …\n\(line)\n") == [])
        let address = "let place = \"http://a\"\n\(line) ; b(\"http://c\")\n"
        #expect(RulesTests.lines(.unsafe, "Sources/Edge/A.swift", address) == [2], "an address is no comment")
        #expect(RulesTests.lines(.unsafe, "Sources/Edge/A.swift", "\(line) // safe, because …\n") == [])
    }

    @Test("what only looks like a force unwrap is none")
    func notUnsafe() {
        let text = "if a != b, !c { }\nlet text = \"really!\"\nif a! != b {}\nlet d = !(e)\n"
        #expect(RulesTests.lines(.unsafe, "Sources/Edge/A.swift", text) == [3])
    }

    @Test("output goes through the module that says when it fails")
    func output() {
        for code in ["    print(a)", "FileHandle.standardError.write(a)", "return print(a)"] {
            #expect(RulesTests.lines(.output, "Sources/tidecast/A.swift", "\n" + code) == [2])
            #expect(RulesTests.lines(.output, "Sources/simulate/A.swift", "\n" + code) == [])
        }
        #expect(RulesTests.lines(.output, "Sources/Edge/A.swift", "a.fingerprint(b) + a.print(c)") == [])
    }

    @Test("no markers are left")
    func markers() {
        for word in ["TO" + "DO", "FIX" + "ME", "XX" + "X"] {
            #expect(RulesTests.lines(.markers, "Sources/Edge/A.swift", "\n// \(word): later") == [2])
        }
        #expect(RulesTests.lines(.markers, "Sources/Edge/A.swift", "let METHODS = 0xFF" + "XX" + "XX") == [])
    }

    @Test("a comment that leaves out the noun is refused; code and longer words are not")
    func plainWords() {
        for words in ["who" + "ever", "Which" + " see", "that" + " one", "an" + "ew"] {
            let comment = "let a = 1\n/// A \(words)."
            #expect(RulesTests.lines(.plainWords, "Sources/Edge/A.swift", comment) == [2])
            let text = "let a = \"\(words)\""
            #expect(RulesTests.lines(.plainWords, "Sources/Edge/A.swift", text) == [])
            #expect(RulesTests.lines(.plainWords, "Tests/Shells/EdgeTests/A.swift", text) == [1])
        }
        let text = "// that oneself, an" + "ewer, the those\n"
        #expect(RulesTests.lines(.plainWords, "Tests/Shells/EdgeTests/A.swift", text) == [])
    }

    @Test("of a function's parameters two may be without a label, wherever its lines are broken")
    func labels() {
        func lines(_ text: String) -> [Int] { RulesTests.lines(.labels, "Sources/Edge/A.swift", text) }
        #expect(lines("func a(_ b: Int, _ c: [Int: Int], d: Int) {}") == [])
        #expect(lines("func a(_ b: (Int, _: Int, Int), _ c: (_ e: Int, _ f: Int) -> Void) {}") == [])
        #expect(lines("let x = 1\ninit(\n_ b: Int, at c: Int, _ d: Int = f(1, 2),\n    _ e: Int) {}") == [2])
        #expect(lines("func a<B: C>(_ b: B, _ c: [Int], _ d: @Sendable () -> Void) {}") == [1])
        #expect(lines("func a(_ b: Int) { c(1, 2, 3) }\nfunc d(_ e: Int, _ f: Int) {}") == [])
    }

    @Test("a sentence of a comment has thirty words; items, tables and code are no sentences")
    func sentences() {
        func lines(_ text: String) -> [Int] { RulesTests.lines(.sentences, "Sources/Edge/A.swift", text) }
        let thirty = String(repeating: "six words that are not many ", count: 5)
        #expect(lines("/// \(thirty).\n/// Another one.") == [])
        #expect(lines("let a = 1\n/// \(thirty)\n/// more.") == [2])
        #expect(lines("/// Short. \(thirty)\n/// more.") == [1])
        #expect(lines("/// \(thirty)`a b c`, more.") == [1])
        #expect(lines("/// \(thirty.dropFirst(4))`a b c`.") == [])
        #expect(lines("/// \(thirty)\n///\n/// more") == [])
        #expect(lines("/// \(thirty)\n/// - more") == [])
        #expect(lines("///     \(thirty) 4 5\n/// | \(thirty) a |") == [])
        #expect(lines("/// ```\n/// \(thirty) and\n/// ```") == [])
        #expect(lines("let a = \"// \(thirty) and\"") == [])
    }

    @Test(
        "a test and a suite have a name",
        arguments: [
            "@Test func a() {}", "@Test(arguments: 1...3)",
            "@Test(.enabled(if: isThere), arguments: [\"a\"])",
            "@Test\nfunc a() {}", "@Test(\n    arguments: [1])", "@Suite struct A {}",
            "@Suite(.serialized)\nstruct A {}",
        ])
    func testNames(text: String) {
        #expect(RulesTests.lines(.testNames, "Tests/Shells/EdgeTests/A.swift", "\n\(text)\n") == [2])
    }

    @Test("a name may stand behind the attribute or below it, and what only looks like a test needs none")
    func notTestNames() {
        let text = """
            @Suite("A", .serialized) struct A {
                @Test("b") func b() {}
                @Test(
                    "c", arguments: [1])
                func c() {}
                // @Test func d() {}
                let e = "@Test func e() {}"
                @Testing func f() {}
            }
            """
        #expect(RulesTests.lines(.testNames, "Tests/Shells/EdgeTests/A.swift", text) == [])
    }
}
