import Foundation

/// Standard output could not be written.
package struct OutputFailure: Error, CustomStringConvertible {
    /// The code of a command whose output could not be written (`sysexits.h`, EX_IOERR).
    package static let exitCode: Int32 = 74
    /// As a shell shows a program that SIGPIPE ended.
    package static let pipeExitCode: Int32 = 141

    package let code: Int32
    /// What is lost with the output; `nil` if the command can simply be repeated.
    package var loss: String?

    /// The reader of a pipe has ended, as `head` does, and wants nothing more.
    package var isQuiet: Bool { code == EPIPE && loss == nil }
    package var description: String {
        let reason = "standard output cannot be written: \(String(cString: strerror(code)))"
        return loss.map { "\(reason); \($0)" } ?? reason
    }
}

/// The output of commands: tables for people, one JSON document for programs. Each call writes immediately,
/// and throws `OutputFailure` if the output is closed or full.
package enum Output {
    package static func json(_ value: Any) throws {
        let data = try JSONSerialization.data(
            withJSONObject: value, options: [.sortedKeys, .withoutEscapingSlashes, .fragmentsAllowed])
        try line(String(decoding: data, as: UTF8.self))
    }

    /// What is not printable in the text is escaped.
    package static func line(_ text: String) throws {
        try bytes(Array("\(Printable.escaped(text))\n".utf8))
    }

    package static func bytes(_ bytes: [UInt8]) throws {
        let code = Descriptor.write(bytes, to: STDOUT_FILENO)
        if code != 0 { throw OutputFailure(code: code) }
    }

    /// Writes what exists nowhere else, such as a new secret. `loss`: what to do if that fails.
    package static func onlyCopy(_ loss: String, _ write: () throws -> Void) throws {
        do { try write() } catch var failure as OutputFailure {
            failure.loss = loss
            throw failure
        }
    }

    /// Writes to standard error. A note that nobody can read changes nothing.
    package static func note(_ text: String) {
        _ = Descriptor.write(Array(Printable.escaped(text).utf8), to: STDERR_FILENO)
    }

    /// Columns as wide as their widest cell; nothing for no rows but the header.
    package static func table(_ header: [String], _ rows: [[String]]) throws {
        // A line feed in a cell would begin a row of a stranger's making.
        let rows = rows.map { $0.map { Printable.escaped($0).replacing("\n", with: "\\n") } }
        var widths = header.map(\.count)
        for row in rows {
            for (column, cell) in row.enumerated() where column < widths.count {
                widths[column] = max(widths[column], cell.count)
            }
        }
        func line(_ cells: [String]) -> String {
            var text = ""
            for (column, cell) in cells.enumerated() {
                text +=
                    column + 1 == cells.count
                    ? cell : cell.padding(toLength: widths[column] + 2, withPad: " ", startingAt: 0)
            }
            return text
        }
        try self.line(([header] + rows).map(line).joined(separator: "\n"))
    }
}
