import Foundation

/// Arguments for the child process of an exit test, whose closure captures nothing before Swift 6.3. The file
/// of a test is named after the parent process, so cases of one test must not run at the same time.
enum ChildArguments {
    static func write(_ arguments: [String], _ test: String) throws {
        try Data(arguments.joined(separator: "\n").utf8).write(to: file(test, of: getpid()))
    }

    /// In the child process.
    static func read(_ test: String) throws -> [String] {
        let text = try Data(contentsOf: file(test, of: getppid()))
        return String(decoding: text, as: UTF8.self).components(separatedBy: "\n")
    }

    private static func file(_ test: String, of parent: pid_t) -> URL {
        FileManager.default.temporaryDirectory.appendingPathComponent("tidecast-\(parent)-\(test)")
    }
}
