"""The paperwork of a release, from its manifest: records for catalogues, registries and officers.

Every fact comes from the manifest, which has it from the schema; what nobody stated is listed as
missing, never invented. Croissant, DCAT and Frictionless describe a table, which is written as CSV
beside the record.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dpublish.errors import QueryError
from dpublish.outputs import as_path, keep_apart, written_to
from dpublish.present.label import Label
from dpublish.privacy.statement import meaning
from dpublish.releases.bundle.manifest import read_cost

if TYPE_CHECKING:
    import polars as pl

    from dpublish.releases.base import Release

RECORDS = ("croissant", "dcat", "frictionless", "registry", "label", "dpo")
_TABLES = ("croissant", "dcat", "frictionless")
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


@dataclass
class Facts:
    """What a manifest says; asking for what it does not say is remembered."""

    release: Release
    manifest: Mapping[str, Any]
    privacy: Mapping[str, Any]
    missing: list[str] = field(default_factory=list)

    def about(self, key: str) -> str | None:
        """What the schema says about the data set; listed as missing where it says nothing."""
        found = self.manifest.get("about", {}).get(key)
        if not found and key not in self.missing:
            self.missing.append(key)
        return str(found) if found else None

    @property
    def name(self) -> str:
        return str(self.manifest["dataset"])

    @property
    def title(self) -> str:
        return str(self.manifest.get("about", {}).get("title") or self.name)

    @property
    def description(self) -> str:
        said = self.about("description")
        made = f"Differentially private release made by the method {self.manifest['method']}."
        return f"{said} {made}" if said else made

    @property
    def slug(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-") or "release"

    @property
    def created(self) -> str:
        return str(self.manifest["created"])

    @property
    def cost(self) -> str:
        return read_cost(self.privacy).describe()

    @property
    def parameters(self) -> dict[str, str]:
        """Epsilon, delta and rho as exact as the manifest has them; zeros are left out."""
        cost = self.privacy["cost"]
        return {
            key: str(cost[key])
            for key in ("epsilon", "delta", "rho")
            if cost.get(key) not in ("0", None)
        }

    @property
    def made(self) -> list[str]:
        return [str(line) for line in self.manifest["plan"].get("sentences", [])]

    @property
    def limits(self) -> list[str]:
        from dpublish.present.report import plain_text

        return [plain_text(line) for line in self.release.sections().limits]


def write_record(
    release: Release, path: str | Path, *, to: str
) -> tuple[Path, list[Path], list[str]]:
    """Write a record; returns its path, the files beside it, and what the schema does not say."""
    if to not in RECORDS:
        raise QueryError(f"Cannot export to '{to}'. Records: {', '.join(RECORDS)}.")
    path = as_path(path)
    if release.path is not None:
        keep_apart(path, release.path)
    facts = Facts(release, release.manifest, release.manifest["privacy"])
    table = _write_csv(release, path) if to in _TABLES else None
    made = _MAKERS[to](facts, table)
    if isinstance(made, Label):
        made = made.svg() if path.suffix.lower() == ".svg" else made.html()
    with written_to(path):
        path.write_text(made, encoding="utf-8")
    return path, [] if table is None else [table.path], facts.missing


@dataclass(frozen=True)
class _Table:
    path: Path
    frame: pl.DataFrame
    sha256: str
    size: int


def _write_csv(release: Release, path: Path) -> _Table | None:
    from dpublish.present.export import write_table

    if not hasattr(release, "to_frame"):
        return None
    frame = release.to_frame()
    out = write_table(frame, path.with_name(f"{path.stem}.table.csv"), to="csv")
    content = out.read_bytes()
    return _Table(out, frame, hashlib.sha256(content).hexdigest(), len(content))


def _kinds(table: _Table, names: Sequence[str]) -> list[tuple[str, str]]:
    """Columns with their types, in the words of a format: whole, real, truth, date, time,
    timestamp, text."""
    found = []
    for name, dtype in table.frame.schema.items():
        text = str(dtype)
        is_kind = (
            dtype.is_integer(),
            dtype.is_float(),
            *(text == kind for kind in ("Boolean", "Date", "Time")),
            text.startswith("Datetime"),
            True,
        )
        found.append((name, names[is_kind.index(True)]))
    return found


def _json(record: Mapping[str, Any]) -> str:
    """The record without what nobody stated."""
    stated = {key: value for key, value in record.items() if value is not None}
    return json.dumps(stated, indent=2, ensure_ascii=False) + "\n"


def _croissant(facts: Facts, table: _Table | None) -> str:
    licence, publisher, purpose = (facts.about(key) for key in ("licence", "publisher", "purpose"))
    record: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": facts.name,
        "description": facts.description,
        "conformsTo": [
            "http://mlcommons.org/croissant/1.1",
            "http://mlcommons.org/croissant/RAI/1.0",
        ],
        "datePublished": facts.created,
        "version": "1.0.0",
        "citeAs": f"{publisher or facts.name} ({facts.created[:4]}). {facts.title}: differentially "
        "private release.",
        "isLiveDataset": False,
        "rai:personalSensitiveInformation": [facts.release.privacy],
        "rai:dataManipulationProtocol": " ".join(facts.made),
        "rai:dataLimitations": facts.limits,
        "license": licence,
        "creator": {"@type": "Organization", "name": publisher} if publisher else None,
        "rai:dataUseCases": [purpose] if purpose else None,
    }
    if table is not None:
        file = table.path.name
        record["distribution"] = [
            {
                "@type": "cr:FileObject",
                "@id": file,
                "name": file,
                "description": "What the release holds, as a table.",
                "contentUrl": file,
                "contentSize": f"{table.size} B",
                "encodingFormat": "text/csv",
                "sha256": table.sha256,
            }
        ]
        words = (
            *("sc:Integer", "sc:Float", "sc:Boolean"),
            *("sc:Date", "sc:Time", "sc:DateTime", "sc:Text"),
        )
        record["recordSet"] = [
            {
                "@type": "cr:RecordSet",
                "@id": "rows",
                "name": "rows",
                "field": [
                    {
                        "@type": "cr:Field",
                        "@id": f"rows/{name}",
                        "name": name,
                        "dataType": kind,
                        "source": {"fileObject": {"@id": file}, "extract": {"column": name}},
                    }
                    for name, kind in _kinds(table, words)
                ],
            }
        ]
    return _json(record)


def _dcat(facts: Facts, table: _Table | None) -> str:
    publisher, contact, licence = (facts.about(key) for key in ("publisher", "contact", "licence"))
    record: dict[str, Any] = {
        "@context": {
            "dcat": "http://www.w3.org/ns/dcat#",
            "dct": "http://purl.org/dc/terms/",
            "foaf": "http://xmlns.com/foaf/0.1/",
            "vcard": "http://www.w3.org/2006/vcard/ns#",
            "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
            "spdx": "http://spdx.org/rdf/terms#",
            "xsd": "http://www.w3.org/2001/XMLSchema#",
        },
        "@type": "dcat:Dataset",
        "dct:identifier": facts.slug,
        "dct:title": {"@value": facts.title, "@language": "en"},
        "dct:description": {"@value": facts.description, "@language": "en"},
        "dct:issued": {"@value": facts.created, "@type": "xsd:dateTime"},
        "dct:provenance": {
            "@type": "dct:ProvenanceStatement",
            "dct:description": facts.release.privacy,
        },
        "dct:publisher": {"@type": "foaf:Agent", "foaf:name": publisher} if publisher else None,
        "dcat:contactPoint": {"@type": "vcard:Kind", "vcard:fn": contact} if contact else None,
    }
    if table is not None:
        distribution: dict[str, Any] = {
            "@type": "dcat:Distribution",
            "dct:title": {"@value": table.path.name, "@language": "en"},
            # the file beside this record, wherever both are put
            "dcat:accessURL": {"@id": quote(table.path.name)},
            "dcat:mediaType": {
                "@id": "http://www.iana.org/assignments/media-types/text/csv",
                "@type": "dct:MediaType",
            },
            "dcat:byteSize": {"@value": str(table.size), "@type": "xsd:nonNegativeInteger"},
            "spdx:checksum": {
                "@type": "spdx:Checksum",
                "spdx:algorithm": {"@id": "spdx:checksumAlgorithm_sha256"},
                "spdx:checksumValue": {"@value": table.sha256, "@type": "xsd:hexBinary"},
            },
        }
        if licence:
            distribution["dct:license"] = {
                **({"@id": licence} if licence.startswith("https://") else {}),
                "rdfs:label": licence,
                "@type": "dct:LicenseDocument",
            }
        record["dcat:distribution"] = [distribution]
    facts.missing.append("a public address to download it from (dcat:accessURL)")
    return _json(record)


def _frictionless(facts: Facts, table: _Table | None) -> str:
    publisher, licence = facts.about("publisher"), facts.about("licence")
    record: dict[str, Any] = {
        "profile": "tabular-data-package",
        "name": facts.slug,
        "title": facts.title,
        "description": facts.description,
        "created": facts.created,
        "licenses": [{"name": licence, "title": licence}] if licence else None,
        "contributors": [{"title": publisher, "role": "publisher"}] if publisher else None,
        "resources": [],
    }
    if table is not None:
        words = ("integer", "number", "boolean", "date", "time", "datetime", "string")
        record["resources"] = [
            {
                "name": "rows",
                "path": table.path.name,
                "profile": "tabular-data-resource",
                "format": "csv",
                "mediatype": "text/csv",
                "encoding": "utf-8",
                "bytes": table.size,
                "hash": f"sha256:{table.sha256}",
                "schema": {
                    "fields": [{"name": n, "type": k} for n, k in _kinds(table, words)],
                    "missingValues": [""],
                },
            }
        ]
    return _json(record)


def _registry(facts: Facts, table: _Table | None) -> str:
    """The record of tier 3, by the registry's own JSON schema: fields and lists of words as its
    repository opendp/deployments-registry-data had them at commit 057e5d81. JSON is YAML too."""
    privacy, manifest = facts.privacy, facts.manifest
    variants = {"pure": "Pure DP", "approximate": "Approximate DP", "zcdp": "Zero-concentrated DP"}
    unprotected = "the schema: columns, levels, bounds and the unit"
    publisher, units = facts.about("publisher"), privacy.get("size") or privacy.get("nominal_size")
    facts.missing += [
        *("data curator type", "data product region", "data product sector"),
        *(["number of privacy units"] if units is None else []),
        *("justification of the parameters", "registry authors", "evidence sources"),
    ]
    versions = ", ".join(f"{name} {number}" for name, number in manifest["versions"].items())
    deployment: dict[str, Any] = {
        "basic": {
            "name": facts.title,
            "data_curators": [{"data_curator_name": publisher}] if publisher else None,
            "description": facts.description,
            "intended_use": facts.about("purpose"),
            "data_product_type": _PRODUCTS.get(str(manifest["kind"]), "Summary statistics"),
            "publication_date": facts.created[:10],
        },
        "dp_variant": {
            "variant_name": variants.get(str(privacy["cost"]["kind"]), "Custom"),
            "data_domain": "All data sets that the public schema "
            f"(SHA-256 {str(manifest['schema_digest'])[:16]}...) allows.",
            "unprotected_quantities": unprotected
            + ("; the number of units" if "size" in privacy else ""),
        },
        "privacy_loss": {
            "privacy_unit": str(privacy["unit"]),
            "privacy_unit_details": f"Adjacent data sets differ in {privacy['unit']}: "
            f"{privacy['neighbours']}.",
            "number_of_privacy_units": units,
            "privacy_parameters": {key: _no_less(text) for key, text in facts.parameters.items()},
            "privacy_parameters_details": facts.cost,
        },
        "deployment_model": {
            "model_name": "Central",
            "model_name_details": "A curator holds the rows and publishes noisy numbers of them.",
            "trust_assumptions": "The curator, the machine and the program are trusted with the "
            "rows. Readers are not: the guarantee holds whatever they know and do.",
            "actors": "A curator who holds the rows; anyone who reads the release.",
            "release_type": "One release",
            "release_type_details": "A ledger debits every release about these rows before they "
            f"are read (ledger {manifest['receipt'].get('ledger_id', 'not stated')}).",
            "data_source_type": "Static",
            "access_type": "Non-interactive",
            "access_type_details": "Readers have the release, and never ask the rows.",
        },
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": "Columns, levels and bounds are those of "
            "the public schema. What the method chose from the rows is part of its privacy loss.",
            "mechanisms": "\n".join(f"- {line}" for line in (*facts.made, versions, *_SECURITY)),
            "composition": "The ledger adds up the privacy losses of releases about the same rows.",
            "post_processing": "Whatever is computed from the release costs nothing more.",
            "utility": "\n".join(f"- {line}" for line in facts.limits) or None,
            "additional_information": facts.release.privacy,
        },
        "administrative": {"status": "Draft", "tier": 3},
    }
    known = {
        part: {key: value for key, value in fields.items() if value is not None}
        for part, fields in deployment.items()
    }
    return _json({"url_slug": facts.slug, "deployment": known})


_PRODUCTS = {
    "synthetic": "Synthetic data",
    "weighted-rows": "Dataset",
    "linear-model": "Machine learning model",
}
_SECURITY = (
    "The ledger is debited durably before a row is read.",
    "Noise is drawn in exact arithmetic from the random source of the operating system.",
    "Timing of a release is not covered by the guarantee.",
)


def _no_less(text: str) -> float:
    """An exact amount as a number that is not below it."""
    near = float(Fraction(text))
    return near if Fraction(near) >= Fraction(text) else math.nextafter(near, math.inf)


def _rows_of(facts: Facts) -> list[tuple[str, str]]:
    privacy = facts.privacy
    signed = [one.describe() for one in facts.release.signatures] or ["nobody"]
    return [
        ("Publisher", facts.about("publisher") or ""),
        ("Contact", facts.about("contact") or ""),
        ("Purpose", facts.about("purpose") or ""),
        ("Licence", facts.about("licence") or ""),
        ("Made", facts.created),
        ("Method", str(facts.manifest["method"])),
        ("Whom it protects", f"{privacy['unit']} ({privacy['neighbours']})"),
        ("Privacy loss", facts.cost),
        ("Signed by", "; ".join(signed)),
    ]


def _label(facts: Facts, table: _Table | None) -> Label:
    """One page to read: HTML, or a drawing where the file is named .svg."""
    return Label(
        title=facts.title,
        cost=facts.cost.split(" (")[0],
        rows=_rows_of(facts),
        words=meaning(read_cost(facts.privacy), str(facts.privacy["neighbours"])),
        seeded=not facts.release.publishable,
    )


def _dpo(facts: Facts, table: _Table | None) -> str:
    """A template for a data-protection officer, in Markdown."""
    privacy = facts.privacy
    stated = [f"- {name}: {text or '**not stated**'}" for name, text in _rows_of(facts)]
    columns = [f"- {axis['name']} ({axis['kind']})" for axis in facts.manifest.get("domain") or []]
    lines = [
        f"# Record for the data-protection officer: {facts.title}",
        "",
        "Facts are those of the release's manifest. Nothing here is a legal assessment; sentences "
        "in "
        "brackets are for the officer to answer.",
        "",
        "## What was published",
        *stated,
        "",
        facts.description,
        "",
        "Columns that the release speaks of:" if columns else "The release lists no columns.",
        *columns,
        "",
        "## Whom the guarantee protects, and how much (NIST SP 800-226: unit of privacy, epsilon)",
        f"- Unit of privacy: {privacy['unit']}; neighbouring data differ by: "
        f"{privacy['neighbours']}.",
        f"- Privacy loss: {facts.cost}.",
        *(f"- {line}" for line in meaning(read_cost(privacy), str(privacy["neighbours"]))),
        "",
        "## What it assumes",
        "- The schema (columns, levels, bounds, unit) was written without looking at the rows.",
        "- The program ran as published, and its noise came from the system's random source.",
        "- All releases about the same people are counted in one ledger; costs add up.",
        "",
        "## What remains (Opinion 05/2014, WP216: singling out, linkability, inference)",
        "- Singling out and linkability: what the release can add to a guess about one unit is "
        "bounded as said above, whatever else a reader knows.",
        "- Inference: what the data teach about people in general applies to each of them, in the "
        "data or not. The guarantee does not prevent that.",
        "- [Is the stated loss adequate for these people and this purpose?]",
        "- [Which other releases about the same people exist, and what do they add up to?]",
        "",
        "## Technique (ISO/IEC 20889: differential privacy, randomization, synthetic data)",
        *(f"- {line}" for line in facts.made),
        "",
        "## Limits of use",
        *(f"- {line}" for line in facts.limits),
        "",
    ]
    if facts.missing:
        lines += ["## Not stated in the schema", *(f"- {name}" for name in facts.missing), ""]
    return "\n".join(lines)


_MAKERS: dict[str, Callable[[Facts, _Table | None], str | Label]] = {
    "croissant": _croissant,
    "dcat": _dcat,
    "frictionless": _frictionless,
    "registry": _registry,
    "label": _label,
    "dpo": _dpo,
}
