//! An OCI image of one layer, and the archive that holds it.

use std::collections::HashMap;
use std::io;
use std::str::FromStr as _;

use oci_spec::image::{
    ANNOTATION_CREATED, ANNOTATION_DESCRIPTION, ANNOTATION_LICENSES, ANNOTATION_REF_NAME,
    ANNOTATION_REVISION, ANNOTATION_SOURCE, ANNOTATION_TITLE, ANNOTATION_VERSION, Arch, Config,
    Descriptor, History, ImageConfiguration, ImageIndexBuilder, ImageManifestBuilder, MediaType,
    OciLayoutBuilder, Os, Platform, RootFs, SCHEMA_VERSION, Sha256Digest,
};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::commit::Commit;
use super::layer::{self, File, Files};

/// The user and the group that the program runs as: nobody in particular, and not root.
const USER: &str = "65532:65532";

/// Description of an image, in the words of the OCI annotations.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    /// Its name, without a registry; the program in it has the same.
    pub name: String,
    /// A line about it.
    pub description: String,
    /// The version of the program, and the tag of the image.
    pub version: String,
    /// Address of its sources.
    pub source: String,
    /// Under what licence it is, as an SPDX expression.
    pub licenses: String,
    /// The commit that it is made from.
    pub commit: Commit,
}

/// An image of one layer.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    /// The digest of the manifest, by which the image is pulled.
    pub digest: Sha256Digest,
    /// Size of all blobs that a node pulls, in bytes.
    pub size: u64,
    /// Its blobs, its index and the mark of the layout, as files of the archive.
    files: Files,
}

impl Description {
    /// The labels of the image, which are the annotations of its manifest too: tools read the one
    /// or the other.
    fn labels(&self) -> HashMap<String, String> {
        let labels = [
            (ANNOTATION_TITLE, &self.name),
            (ANNOTATION_DESCRIPTION, &self.description),
            (ANNOTATION_VERSION, &self.version),
            (ANNOTATION_SOURCE, &self.source),
            (ANNOTATION_LICENSES, &self.licenses),
            (ANNOTATION_REVISION, &self.commit.revision),
            (ANNOTATION_CREATED, &self.created()),
        ];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.clone()));
        labels.into_iter().collect()
    }

    fn created(&self) -> String {
        self.commit.time.to_string()
    }
}

impl Image {
    /// An image with these files, that starts the program of its name.
    pub(crate) fn new(
        description: &Description,
        architecture: &Arch,
        files: &Files,
    ) -> anyhow::Result<Self> {
        let mut blobs = Blobs::default();
        let archive = layer::archive(files)?;
        let unpacked = format!("sha256:{}", hex(&archive));
        let layer = blobs.add(MediaType::ImageLayerGzip, layer::compressed(&archive)?)?;
        let config = configuration(description, architecture, unpacked);
        let config = blobs.add(MediaType::ImageConfig, json(&config)?)?;
        let manifest = ImageManifestBuilder::default()
            .schema_version(SCHEMA_VERSION)
            .media_type(MediaType::ImageManifest)
            .config(config)
            .layers([layer])
            .annotations(description.labels())
            .build()?;
        let mut manifest = blobs.add(MediaType::ImageManifest, json(&manifest)?)?;
        manifest.set_platform(Some(platform(architecture)));
        let tag = (ANNOTATION_REF_NAME.to_owned(), description.version.clone());
        manifest.set_annotations(Some(HashMap::from([tag])));
        let digest = Sha256Digest::from_str(manifest.digest().digest())?;
        let index = ImageIndexBuilder::default()
            .schema_version(SCHEMA_VERSION)
            .media_type(MediaType::ImageIndex)
            .manifests([manifest])
            .build()?;
        let layout = OciLayoutBuilder::default()
            .image_layout_version("1.0.0")
            .build()?;
        let size = blobs.size();
        let mut files = blobs.files;
        files.insert("index.json".to_owned(), plain(json(&index)?));
        files.insert("oci-layout".to_owned(), plain(json(&layout)?));
        Ok(Self {
            digest,
            size,
            files,
        })
    }

    /// The image as an archive: what skopeo, podman and containerd call an OCI archive.
    pub(crate) fn archive(&self) -> io::Result<Vec<u8>> {
        layer::archive(&self.files)
    }
}

/// Files by their digests.
#[derive(Default)]
struct Blobs {
    files: Files,
}

impl Blobs {
    fn add(&mut self, kind: MediaType, content: Vec<u8>) -> anyhow::Result<Descriptor> {
        let digest = hex(&content);
        let described = Sha256Digest::from_str(&digest)?;
        let descriptor = Descriptor::new(kind, content.len() as u64, described);
        self.files
            .insert(format!("blobs/sha256/{digest}"), plain(content));
        Ok(descriptor)
    }

    fn size(&self) -> u64 {
        let sizes = self.files.values().map(|blob| blob.content.len() as u64);
        sizes.sum()
    }
}

fn configuration(
    description: &Description,
    architecture: &Arch,
    unpacked: String,
) -> ImageConfiguration {
    let mut config = Config::default();
    config
        .set_user(Some(USER.to_owned()))
        .set_entrypoint(Some(vec![format!("/{}", description.name)]))
        .set_working_dir(Some("/".to_owned()))
        .set_labels(Some(description.labels()));
    let mut layers = RootFs::default();
    layers
        .set_typ("layers".to_owned())
        .set_diff_ids(vec![unpacked]);
    let mut history = History::default();
    history
        .set_created(Some(description.created()))
        .set_created_by(Some("make image".to_owned()));
    let mut image = ImageConfiguration::default();
    image
        .set_architecture(architecture.clone())
        .set_os(Os::Linux)
        .set_created(Some(description.created()))
        .set_config(Some(config))
        .set_rootfs(layers)
        .set_history(Some(vec![history]));
    image
}

fn platform(architecture: &Arch) -> Platform {
    let mut platform = Platform::default();
    platform
        .set_architecture(architecture.clone())
        .set_os(Os::Linux);
    platform
}

/// A document with its keys in order: those of a HashMap are in another each time.
fn json(document: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut value = serde_json::to_value(document)?;
    value.sort_all_objects();
    serde_json::to_vec(&value)
}

fn hex(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn plain(content: Vec<u8>) -> File {
    File {
        mode: 0o644,
        content,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use jiff::Timestamp;
    use oci_spec::image::{ImageIndex, ImageManifest};

    use super::*;

    fn description() -> Description {
        Description {
            name: "causeway-webhook".to_owned(),
            description: "A webhook".to_owned(),
            version: "0.1.0".to_owned(),
            source: "https://example.test/causeway".to_owned(),
            licenses: "Apache-2.0".to_owned(),
            commit: Commit {
                revision: "0123abcd".to_owned(),
                time: Timestamp::from_second(1_700_000_000).expect("a time"),
            },
        }
    }

    fn image() -> Image {
        // Long and irregular enough for a compressor to have a choice.
        let words = (0..30_000_u32).map(|number| number.wrapping_mul(number) >> 7);
        let program = File {
            mode: 0o755,
            content: words.flat_map(u32::to_le_bytes).collect(),
        };
        let files = Files::from([
            ("causeway-webhook".to_owned(), program),
            ("etc/roots".to_owned(), plain(b"roots".to_vec())),
        ]);
        Image::new(&description(), &Arch::Amd64, &files).expect("an image")
    }

    /// The files of an archive, by their paths.
    fn unpacked(bytes: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(bytes);
        let entries = archive.entries().expect("entries");
        let files = entries.map(|entry| {
            let mut entry = entry.expect("an entry");
            let path = entry.path().expect("a path").display().to_string();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).expect("content");
            (path, content)
        });
        files.filter(|(path, _)| !path.ends_with('/')).collect()
    }

    /// The blob that a descriptor names, which is as large and has the digest that it says.
    fn blob<'a>(files: &'a BTreeMap<String, Vec<u8>>, descriptor: &Descriptor) -> &'a [u8] {
        let digest = descriptor.digest().digest();
        let content = &files[&format!("blobs/sha256/{digest}")];
        assert_eq!(content.len() as u64, descriptor.size());
        assert_eq!(hex(content), digest);
        content
    }

    fn read() -> (ImageIndex, ImageManifest, ImageConfiguration, Vec<u8>) {
        let files = unpacked(&image().archive().expect("an archive"));
        assert_eq!(files["oci-layout"], br#"{"imageLayoutVersion":"1.0.0"}"#);
        assert_eq!(files.len(), 5, "{:?}", files.keys());
        let index = ImageIndex::from_reader(files["index.json"].as_slice()).expect("an index");
        let manifest = blob(&files, &index.manifests()[0]);
        let manifest = ImageManifest::from_reader(manifest).expect("a manifest");
        let config = blob(&files, manifest.config());
        let config = ImageConfiguration::from_reader(config).expect("a configuration");
        let mut layer = Vec::new();
        GzDecoder::new(blob(&files, &manifest.layers()[0]))
            .read_to_end(&mut layer)
            .expect("gzip");
        (index, manifest, config, layer)
    }

    /// A newer compressor or an order of keys would show here: the digest of what was pushed is to
    /// be made again.
    #[test]
    fn the_same_files_of_the_same_commit_have_the_same_digest_on_every_machine() {
        let image = image();
        let archive = hex(&image.archive().expect("an archive"));
        assert_eq!(
            (image.digest.digest(), archive.as_str()),
            (
                "141e3d4cd67f4cd6a16f0a7ee93293e3edbce25ca23a94600e62a84a880c75ec",
                "625534e7867bee7a666acb2f036936ce2ec29110eca257589c4b86612e783f0b"
            ),
            "packing has changed: no image that was made before can be made again"
        );
    }

    #[test]
    fn the_program_is_started_by_nobody_in_particular_without_a_shell() {
        let (_, _, image, _) = read();
        let config = image.config().as_ref().expect("a configuration");
        assert_eq!(config.user().as_deref(), Some("65532:65532"));
        let entrypoint = config.entrypoint().as_ref().expect("an entry point");
        assert_eq!(entrypoint, &["/causeway-webhook"]);
        assert_eq!(config.cmd(), &None);
        assert_eq!(image.architecture(), &Arch::Amd64);
        assert_eq!(image.os(), &Os::Linux);
    }

    #[test]
    fn what_an_image_says_of_itself_is_in_its_labels_and_in_its_annotations() {
        let (_, manifest, image, _) = read();
        let expected = [
            ("created", "2023-11-14T22:13:20Z"),
            ("description", "A webhook"),
            ("licenses", "Apache-2.0"),
            ("revision", "0123abcd"),
            ("source", "https://example.test/causeway"),
            ("title", "causeway-webhook"),
            ("version", "0.1.0"),
        ];
        let expected = expected
            .map(|(key, value)| (format!("org.opencontainers.image.{key}"), value.to_owned()));
        let expected = HashMap::from(expected);
        assert_eq!(manifest.annotations().as_ref(), Some(&expected));
        assert_eq!(image.labels_of_config(), Some(&expected));
        assert_eq!(image.created().as_deref(), Some("2023-11-14T22:13:20Z"));
    }

    #[test]
    fn the_layer_is_the_only_one_and_holds_the_files() {
        let (index, manifest, image, layer) = read();
        assert_eq!(index.manifests().len(), 1);
        assert_eq!(manifest.layers().len(), 1);
        assert_eq!(
            image.rootfs().diff_ids(),
            &[format!("sha256:{}", hex(&layer))]
        );
        assert_eq!(image.history().as_ref().map(Vec::len), Some(1));
        let files = unpacked(&layer).into_keys();
        assert_eq!(files.collect::<Vec<_>>(), ["causeway-webhook", "etc/roots"]);
    }

    #[test]
    fn the_size_is_what_a_node_pulls() {
        let (index, manifest, _, _) = read();
        let pulled = [
            &index.manifests()[0],
            manifest.config(),
            &manifest.layers()[0],
        ];
        let sum: u64 = pulled.iter().map(|descriptor| descriptor.size()).sum();
        assert_eq!(image().size, sum);
    }
}
