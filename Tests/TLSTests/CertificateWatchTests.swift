import Testing

@testable import TLS

@Suite("When a certificate's files are read anew") struct CertificateWatchTests {
    private let old = [FileStamp(inode: 1), FileStamp(inode: 2)]
    private let half = [FileStamp(inode: 3), FileStamp(inode: 2)]
    private let new = [FileStamp(inode: 3), FileStamp(inode: 4)]

    private func look(_ watch: inout CertificateWatch, _ stamps: [FileStamp?]) -> Bool { watch.look(stamps) }

    @Test func notWhileTheyAreAsTheyWere() {
        var watch = CertificateWatch(read: old)
        for _ in 0..<3 { #expect(look(&watch, old) == false) }
    }

    @Test func onceTheyAreOthersAndStandStill() {
        var watch = CertificateWatch(read: old)
        #expect(look(&watch, half) == false, "the key may be about to follow")
        #expect(look(&watch, new) == false)
        #expect(look(&watch, new) == true)
        #expect(look(&watch, new) == false)
    }

    @Test func whatCouldNotBeUsedIsNotTriedAgainBeforeItChanges() {
        var watch = CertificateWatch(read: old)
        #expect(look(&watch, half) == false)
        #expect(look(&watch, half) == true)
        #expect(look(&watch, half) == false)
        #expect(look(&watch, new) == false)
        #expect(look(&watch, new) == true)
    }

    @Test func whenTheyAreGoneAndComeBack() {
        var watch = CertificateWatch(read: old)
        let gone: [FileStamp?] = [nil, FileStamp(inode: 2)]
        #expect(look(&watch, gone) == false)
        #expect(look(&watch, gone) == true)
        #expect(look(&watch, old) == false)
        #expect(look(&watch, old) == true)
    }

    @Test func whatWasReadBecauseSomebodyAskedIsNotReadTwice() {
        var watch = CertificateWatch(read: old)
        #expect(look(&watch, new) == false)
        watch.begin(new)
        #expect(look(&watch, new) == false)
        #expect(look(&watch, new) == false)
    }
}
