import Model
import Testing

@Suite("Stored rules") struct StoredRulesTests {
    /// A change of one of these is a change of a format: see docs/formats.md.
    @Test("have these values, and their digests change with each of them")
    func values() {
        #expect(StoredRules.waitingMax == 100 && StoredRules.collapsibleMax == 4)
        #expect(StoredRules.passDepth == 64 && StoredRules.waitingHardMax == 1000)
        #expect(StoredRules.topicsMax == 2000 && StoredRules.requestWindow == 1024)
        #expect(StoredRules.restDaysMax == 3)
        #expect(StoredRules.quotaLease == .milliseconds(100) && StoredRules.quotaShare == .seconds(1))
        #expect(StoredRules.quotaInflow == .milliseconds(100))
        #expect(StoredRules.ofPartitions == 0xF114_A301_D6ED_9986)
        #expect(StoredRules.ofClusters == 0x99C3_6F58_4F6B_6A11)
    }

    @Test("are refused in a sentence where a digest differs, and only there")
    func refusal() {
        #expect(StoredRules.refusal(of: "records", 7, here: 7) == nil)
        #expect(
            StoredRules.refusal(of: "records", 26, here: 7)?.hasPrefix("records under stored rules 1a, ")
                == true)
    }
}
