import ArgumentParser
import Foundation

/// Hands its arguments to `tidecast-bench`, so that a server carries no load generator.
struct Bench: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Measure a running server with the program tidecast-bench beside this program.")
    @Argument(parsing: .captureForPassthrough, help: "The arguments of tidecast-bench.")
    var arguments: [String] = []

    struct Missing: Error, CustomStringConvertible {
        var description: String
    }

    func run() throws {
        // The kernel's name of a program that was replaced on the disk ends with this word.
        let replaced = " (deleted)"
        var own = try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")
        if own.hasSuffix(replaced) { own.removeLast(replaced.count) }
        let program = own + "-bench"
        var pointers = ([program] + arguments).map { strdup($0) } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        execv(program, &pointers)
        let reason = String(cString: strerror(errno))
        throw Missing(
            description: "\(program) cannot be run (\(reason)). The load generator is built beside the"
                + " server: swift build -c release --product tidecast-bench."
                + " Images and tools/build leave it out.")
    }
}
