import Glibc
import Testing

@testable import CommandOutput

@Suite("A log without room") struct LogOutputTests {
    /// Sets the capacity of a pipe (Linux's fcntl.h).
    private static let setPipeSize: Int32 = 1031

    @Test("ends a line that was cut before the next one, and counts what is lost")
    func cutLines() throws {
        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        try #require(fcntl(ends[1], LogOutputTests.setPipeSize, 4096) == 4096)
        try #require(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0)
        defer { ends.forEach { close($0) } }
        func read() -> String {
            var bytes = [UInt8](repeating: 0, count: 65536)
            let count = Glibc.read(ends[0], &bytes, bytes.count)
            return String(decoding: bytes.prefix(max(0, count)), as: UTF8.self)
        }
        let log = LogOutput(ends[1])
        log.write(Array(repeating: UInt8(ascii: "a"), count: 5999) + [0x0A])
        #expect(log.linesLost == 1)
        log.write(Array("lost\n".utf8))
        #expect(log.linesLost == 2)
        #expect(read() == String(repeating: "a", count: 4096))
        log.write(Array("one\n".utf8))
        #expect(read() == "\none\n")
        log.write(Array("two\n".utf8))
        #expect(read() == "two\n")
        #expect(log.linesLost == 2)
    }
}
