import CSQLite
import Glibc
import Journal
import Testing

@testable import SQLiteEngine

@Suite("An engine whose process has no descriptor left")
struct DescriptorTests {
    @Test("is refused, not broken, where any file has taken the last one", arguments: [EMFILE, ENFILE])
    func files(code: Int32) {
        errno = code
        #expect(Files.failure("cannot open x") == .refused("too many open files"))
        errno = EIO
        guard case .ioFailure = Files.failure("cannot open x") else {
            Issue.record("what else goes wrong is no refusal")
            return
        }
    }

    @Test("is refused by SQLite, too; what else cannot be opened is broken")
    func database() {
        #expect(SQLiteConnection.isOutOfDescriptors(SQLITE_CANTOPEN, EMFILE))
        #expect(SQLiteConnection.isOutOfDescriptors(SQLITE_CANTOPEN | (2 << 8), ENFILE))
        #expect(!SQLiteConnection.isOutOfDescriptors(SQLITE_CANTOPEN, EACCES))
        #expect(!SQLiteConnection.isOutOfDescriptors(SQLITE_IOERR, EMFILE))
    }
}
