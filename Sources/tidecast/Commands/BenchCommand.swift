import ArgumentParser
import Foundation

/// Hands its arguments to `tidecast-bench`, so that a server carries no load generator.
struct Bench: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Measure a running server, by the program tidecast-bench beside this one.")
    @Argument(parsing: .captureForPassthrough, help: "As tidecast-bench takes them.")
    var arguments: [String] = []

    func run() throws {
        let own = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        let program = own + "-bench"
        let words = [program] + arguments
        var pointers = words.map { strdup($0) } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        execv(program, &pointers)
        let reason = String(cString: strerror(errno))
        throw ValidationError(
            "\(program) cannot be run (\(reason)): swift build -c release --product tidecast-bench")
    }
}
