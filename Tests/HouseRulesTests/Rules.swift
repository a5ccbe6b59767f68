// The house's rules that a program can check. A rule looks at one file's text and says where the text breaks
// the rule and what to write instead. RulesTests shows each rule failing on planted text.

/// One file. Rules about code read `code`, which has no comments and no insides of string literals.
struct SourceFile {
    /// From the repository's root: `Sources/Model/Model/Time.swift`.
    var path: String
    var lines: [String]
    /// The same lines, in which comments and the insides of string literals are blank.
    var code: [String]
    /// Whether each line has a comment. Slashes in a string literal are no comment.
    var isCommented: [Bool]

    init(path: String, text: String) {
        self.path = path
        lines = text.split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        if lines.last == "" { lines.removeLast() }
        var stripper = Stripper()
        code = []
        isCommented = []
        for line in lines {
            code.append(stripper.strip(line))
            isCommented.append(stripper.sawComment)
        }
    }

    private static let floors: Set<Substring> = [
        "Libraries", "Model", "Core", "Push", "Catalog", "API", "Shells", "Simulation", "Programs", "Support",
    ]
    /// The target: the folder below its floor's. Node, HouseRulesTests and the clients' have no floor's.
    var module: String {
        let folders = partsInPackage.dropFirst().dropLast()
        let isBelowFloor = folders.count > 1 && SourceFile.floors.contains(folders[1])
        return folders.dropFirst(isBelowFloor ? 1 : 0).first.map(String.init) ?? ""
    }
    var isTest: Bool { partsInPackage.first == "Tests" }
    /// The parts of the path, from the root of the file's package: this repository, or `Clients`.
    private var partsInPackage: [Substring] {
        let parts = path.split(separator: "/")
        return parts.first == "Clients" ? Array(parts.dropFirst()) : parts
    }

    /// Whether line `index` has a comment, or the line above is a comment.
    func hasComment(at index: Int) -> Bool {
        if isCommented[index] { return true }
        // Only the line directly above counts.
        return index > 0 && lines[index - 1].trimmed.hasPrefix("//")
    }
}

struct Violation: CustomStringConvertible, Equatable {
    var path: String
    /// Counted from 1.
    var line: Int
    var advice: String
    var description: String { "\(path):\(line): \(advice)" }
}

struct Rule: Sendable {
    var name: String
    var check: @Sendable (SourceFile) -> [(line: Int, advice: String)]

    func violations(in file: SourceFile) -> [Violation] {
        check(file).map { Violation(path: file.path, line: $0.line + 1, advice: $0.advice) }
    }
}

extension Rule {
    /// Targets that decide. They must have no I/O, clock, task or randomness of their own.
    static let core: Set = [
        "Model", "Bytes", "HTTPMessages", "RegistrationIDs", "MemoryEngine", "FCMAPI", "WebClient", "Journal",
        "Credentials", "Quotas", "Placement", "Partitions", "Routing",
        "Membership", "Ownership", "NodeCore", "VirtualTime", "Simulator", "PushMessages", "PushScheduling",
        "PushDesk",
    ]
    static let lineLengthMax = 110
    static let fileLengthMax = 400
    static let functionLengthMax = 70

    static let all: [Rule] = [
        imports, ciphers, clocks, tasks, randomness, fileLength, lineLength, functionLength, unsafe, markers,
        plainWords, testNames, sentences, labels, output,
    ]

    static let imports = Rule(name: "imports of the core") { file in
        guard Rule.core.contains(file.module), !file.isTest else { return [] }
        // These functions compute, and ask nobody.
        let pure: Set = [
            "import func Glibc.inet_pton", "import var Glibc.AF_INET", "import var Glibc.AF_INET6",
            "import func Glibc.gmtime_r", "import func Glibc.strftime", "import func Glibc.timegm",
            "import struct Glibc.tm",
        ]
        // The loops of a process share an object of these modules, which has a lock.
        let shared: Set = ["FCMAPI"]
        let forbidden: Set = [
            "Foundation", "FoundationEssentials", "Glibc", "Musl", "Darwin", "Dispatch", "Synchronization",
            "System",
            "SystemPackage", "NIO",
        ]
        let found = file.importedModules.filter { found in
            if pure.contains(String(file.code[found.line].trimmed)) { return false }
            if found.name == "Synchronization", shared.contains(file.module) { return false }
            return forbidden.contains(found.name) || found.name.hasPrefix("NIO")
        }
        return found.map {
            (
                $0.line,
                "the core does no I/O: hand in what \($0.name) gives as an event, or move this to a shell"
            )
        }
    }

    static let ciphers = Rule(name: "libcrypto only where it is needed") { file in
        let allowed: Set = [
            "RegistrationIDs", "PushMessages", "Credentials", "FCMAPI", "Catalog", "TLS", "Node", "tidecast",
        ]
        guard !allowed.contains(file.module), !file.isTest else { return [] }
        return file.importedModules.filter { $0.name == "COpenSSL" }.map {
            (
                $0.line,
                "COpenSSL is for ids, push messages, credentials, FCMAPI and TLS: hand the result in"
            )
        }
    }

    static let clocks = Rule(name: "clocks") { file in
        guard Rule.core.contains(file.module), !file.isTest else { return [] }
        let words = [
            "clock_gettime", "gettimeofday", "DispatchTime", "Date(", "Date.now", "ContinuousClock",
            "SuspendingClock",
            "NIODeadline", "Task.sleep",
        ]
        return file.find(words).map {
            (
                $0.line,
                "no clock here (\($0.word)): take the time as an argument, a MonotonicTime or an Instant"
            )
        }
    }

    static let tasks = Rule(name: "tasks and threads") { file in
        guard Rule.core.contains(file.module), !file.isTest else { return [] }
        let words = [
            "Task {", "Task.detached", "Task(", "TaskGroup", "async let", "Thread(", "pthread_",
            "DispatchQueue", "await ",
            "actor ",
        ]
        return file.find(words).map {
            ($0.line, "no tasks in the core (\($0.word)): return an effect, and let the shell do the work")
        }
    }

    static let randomness = Rule(name: "randomness") { file in
        guard Rule.core.contains(file.module) || file.isTest else { return [] }
        var found = file.find(["SystemRandomNumberGenerator", "arc4random", "getrandom("]).map {
            (line: $0.line, advice: "\($0.word) cannot be replayed: take a seeded generator as an argument")
        }
        // Tests may make keys: no test depends on which.
        if !file.isTest {
            found += file.find(["RAND_bytes", "P256Key.generate(", "ServiceAccountKey.make("]).map {
                ($0.line, "\($0.word) cannot be replayed: a shell draws bytes and keys, and hands them in")
            }
        }
        let words = [".random(in:", ".randomElement()", ".shuffled()", ".shuffle()"]
        for hit in file.find(words) {
            // The call may go on in the next line.
            let here = file.code[hit.line] + (hit.line + 1 < file.code.count ? file.code[hit.line + 1] : "")
            if hit.word.hasSuffix("()") || !here.contains("using:") {
                found.append((hit.line, "\(hit.word) asks the system: write `using: &generator`, seeded"))
            }
        }
        return found
    }

    static let fileLength = Rule(name: "length of a file") { file in
        guard file.lines.count > Rule.fileLengthMax, !file.isGenerated else { return [] }
        return [
            (
                Rule.fileLengthMax,
                "\(file.lines.count) lines, at most \(Rule.fileLengthMax): move one concept to Type+Aspect.swift"
            )
        ]
    }

    static let lineLength = Rule(name: "length of a line") { file in
        guard !file.isGenerated else { return [] }
        // A string literal that stands alone on its line may be longer: it could only be broken in two.
        let long = file.lines.indices.filter {
            file.lines[$0].count > Rule.lineLengthMax && !file.lines[$0].trimmed.hasPrefix("\"")
        }
        return long.map {
            ($0, "\(file.lines[$0].count) characters, at most \(Rule.lineLengthMax): wrap it")
        }
    }

    static let functionLength = Rule(name: "length of a function") { file in
        guard !file.isTest, !file.isGenerated else { return [] }
        // A codec is a flat switch over all cases, and the compiler checks it only where it is in one piece.
        return file.functions.compactMap { function in
            let length = function.length - file.flatSwitchLines(of: function)
            guard length > Rule.functionLengthMax else { return nil }
            return (
                function.line,
                "\(length) lines, at most \(Rule.functionLengthMax): name a part of it, and call that"
            )
        }
    }

    static let unsafe = Rule(name: "promises that the compiler cannot check") { file in
        var found: [(line: Int, advice: String)] = []
        for (index, line) in file.code.enumerated() {
            let word =
                ["@unchecked Sendable", "nonisolated(unsafe)", "try!", "as!", "unowned(unsafe)"]
                .first { line.contains($0) } ?? (line.forcesUnwrap ? "a force unwrap" : nil)
            guard let word, !file.hasComment(at: index) else { continue }
            found.append((index, "\(word) needs a comment here or in the line above: why is it safe?"))
        }
        return found
    }

    static let markers = Rule(name: "leftover markers") { file in
        // Written in two halves, so that this file does not break its own rule.
        let words = ["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK"]
        return file.lines.indices.compactMap { index in
            words.first { file.lines[index].containsWord($0) }.map {
                (index, "\($0) stays for ever: do it now, or write an issue")
            }
        }
    }

    /// Programs that people run by hand in this repository, and nobody in a pipe.
    private static let workbench: Set = [
        "simulate", "fuzz", "core-bench", "push-bench", "apns-bench", "gossip-bench", "messaging-sample",
    ]

    /// `print` hides a failed write, and `FileHandle` ends the process with it.
    static let output = Rule(name: "output that may fail") { file in
        guard !file.isTest, !Rule.workbench.contains(file.module) else { return [] }
        return file.code.indices.compactMap { index in
            let code = file.code[index]
            let prints = code.ranges(of: "print(").contains { range in
                code[..<range.lowerBound].last.map { !$0.isLetter && $0 != "." } ?? true
            }
            guard prints || code.contains("FileHandle.standard") else { return nil }
            return (index, "write through CommandOutput, which says when that fails")
        }
    }

    /// The words that docs/style.md bans: a sentence with one of them leaves out the noun. Of a test the rule
    /// reads the texts as well, which a report of tests shows.
    static let plainWords = Rule(name: "plain words in comments") { file in
        let words = [
            "who" + "ever", "that" + " one", "it was" + " so", "in so many" + " words", "an" + "ew",
            "those" + " who", "of" + " before", "which" + " see", "be" + "sides",
        ]
        let readsTexts = file.isTest
        return file.lines.indices.flatMap { index -> [(line: Int, advice: String)] in
            var text = ""
            let line = file.lines[index]
            if file.isCommented[index] {
                text = line.firstRange(of: "//").map { String(line[$0.upperBound...]) } ?? line
            }
            if readsTexts, line != file.code[index] { text = line }
            guard !text.isEmpty else { return [] }
            let lowercased = text.lowercased()
            return words.filter { lowercased.contains($0) && lowercased.containsWord($0) }.map {
                (index, "\"\($0)\" is banned by docs/style.md: name the actor or the thing instead")
            }
        }
    }

    /// A report of tests reads as a list of promises, so each test and each suite says its own in a sentence.
    static let testNames = Rule(name: "names of tests") { file in
        var found: [(line: Int, advice: String)] = []
        for (index, line) in file.code.enumerated() {
            for attribute in ["@Test", "@Suite"] {
                guard let match = line.firstRange(of: attribute) else { continue }
                var rest = String(line[match.upperBound...])
                // An attribute of another library may have a longer name.
                if rest.first.map({ $0.isLetter || $0.isNumber || $0 == "_" }) ?? false { continue }
                // The name may stand in the line below.
                if rest == "(", index + 1 < file.code.count { rest += file.code[index + 1].trimmed }
                guard !rest.hasPrefix("(\"") else { continue }
                found.append((index, "\(attribute) has no name: write \(attribute)(\"what it promises\")"))
            }
        }
        return found
    }
}
